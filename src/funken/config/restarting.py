"""The options about what happens after a failure: the restart strategies, which are Flink's."""

from __future__ import annotations

from funken.config.options import _option
from funken.config.parsing import at_least, between, same
from funken.config.values import duration_ms

RESTART_STRATEGY = _option(
    "restart-strategy.type",
    same(
        none="none, off, disable",
        fixed="fixed-delay, fixeddelay",
        failure="failure-rate, failurerate",
        exponential="exponential-delay, exponentialdelay",
        default="default",
    ),
    "default",
    "What happens after a failure: none, fixed-delay, failure-rate, exponential-delay. Default: exponential-delay if "
    "there are checkpoints, else none.",
    ("restart-strategy",),
)
FIXED_DELAY_ATTEMPTS = _option(
    "restart-strategy.fixed-delay.attempts", at_least(0), 1, "How many times fixed-delay restarts a job."
)
FIXED_DELAY = _option(
    "restart-strategy.fixed-delay.delay",
    at_least(0, duration_ms),
    1000,
    "How long fixed-delay waits before a restart (ms).",
)
FAILURE_RATE_MAX = _option(
    "restart-strategy.failure-rate.max-failures-per-interval",
    at_least(1),
    1,
    "How many failures in an interval failure-rate restarts after.",
)
FAILURE_RATE_INTERVAL = _option(
    "restart-strategy.failure-rate.failure-rate-interval",
    at_least(1, duration_ms),
    60_000,
    "The interval of failure-rate (ms).",
)
FAILURE_RATE_DELAY = _option(
    "restart-strategy.failure-rate.delay",
    at_least(0, duration_ms),
    1000,
    "How long failure-rate waits before a restart (ms).",
)
_EXPONENTIAL = "restart-strategy.exponential-delay."
EXPONENTIAL_INITIAL = _option(
    _EXPONENTIAL + "initial-backoff", at_least(1, duration_ms), 1000, "How long exponential-delay waits at first (ms)."
)
EXPONENTIAL_MAX = _option(
    _EXPONENTIAL + "max-backoff", at_least(1, duration_ms), 60_000, "How long exponential-delay waits at most (ms)."
)
EXPONENTIAL_MULTIPLIER = _option(
    _EXPONENTIAL + "backoff-multiplier",
    between(lambda factor: factor > 1, "more than 1"),
    1.5,
    "By how much the wait grows from failure to failure.",
)
EXPONENTIAL_RESET = _option(
    _EXPONENTIAL + "reset-backoff-threshold",
    at_least(1, duration_ms),
    3_600_000,
    "How long a job must have run for the wait to start over (ms).",
)
EXPONENTIAL_JITTER = _option(
    _EXPONENTIAL + "jitter-factor",
    between(lambda share: 0 <= share <= 1, "from 0 to 1"),
    0.1,
    "The share of the wait that is random, up or down.",
)
EXPONENTIAL_ATTEMPTS = _option(
    _EXPONENTIAL + "attempts-before-reset-backoff",
    at_least(1),
    2**31 - 1,
    "How many restarts exponential-delay allows before the wait starts over.",
)

__all__ = [
    "EXPONENTIAL_ATTEMPTS",
    "EXPONENTIAL_INITIAL",
    "EXPONENTIAL_JITTER",
    "EXPONENTIAL_MAX",
    "EXPONENTIAL_MULTIPLIER",
    "EXPONENTIAL_RESET",
    "FAILURE_RATE_DELAY",
    "FAILURE_RATE_INTERVAL",
    "FAILURE_RATE_MAX",
    "FIXED_DELAY",
    "FIXED_DELAY_ATTEMPTS",
    "RESTART_STRATEGY",
]
