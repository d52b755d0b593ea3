"""The options of the adaptive mode and of scaling by load; Flink's names where Flink has the option."""

from __future__ import annotations

from funken.config.options import _option
from funken.config.parsing import at_least, between, one_of
from funken.config.values import boolean, duration_ms

SCHEDULER = _option(
    "jobmanager.scheduler",
    one_of("default", "adaptive", "adaptivebatch"),
    "default",
    "adaptive: a continuous job with checkpoints begins with the slots that there are, if these are too few for its parallelism, "
    "and goes on with more when more come. The other values make no difference here.",
)
ADAPTIVE_MIN_INCREASE = _option(
    "jobmanager.adaptive-scheduler.min-parallelism-increase",
    at_least(1),
    1,
    "By how much the parallelism has to rise at least to be worth a restart.",
)
ADAPTIVE_COOLDOWN = _option(
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
    at_least(0, duration_ms),
    30_000,
    "For how long (ms) after a change of the parallelism there is no other. It doubles with every change that is refused.",
)
ADAPTIVE_STABILIZATION = _option(
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
    at_least(0, duration_ms),
    60_000,
    "For how long (ms) slots have to be there before the parallelism rises.",
)
SLOT_REQUEST_TIMEOUT = _option(
    "slot.request.timeout",
    at_least(0, duration_ms),
    30_000,
    "How long (ms) a continuous job on a cluster waits for enough slots when it begins: executors register one after the other.",
)
AUTOSCALER = _option(
    "job.autoscaler.enabled",
    boolean,
    False,
    "Whether the parallelism follows the load, within the bounds of job.autoscaler.vertex.*. Needs checkpoints.",
)
AUTOSCALER_LOWEST = _option(
    "job.autoscaler.vertex.min-parallelism", at_least(1), 1, "The least parallelism that scaling chooses."
)
AUTOSCALER_HIGHEST = _option(
    "job.autoscaler.vertex.max-parallelism", at_least(1), 200, "The greatest parallelism that scaling by load chooses."
)
_share = between(lambda number: 0 < number <= 1, "above 0, and at most 1")
AUTOSCALER_TARGET = _option(
    "job.autoscaler.utilization.target", _share, 0.7, "How busy the busiest vertex is to be after a change."
)
AUTOSCALER_MIN = _option(
    "job.autoscaler.utilization.min", _share, 0.4, "Below which busy share of the busiest vertex the parallelism falls."
)
AUTOSCALER_MAX = _option(
    "job.autoscaler.utilization.max",
    _share,
    1.0,
    "Above which busy share of the busiest vertex the parallelism rises, also if no source is held back.",
)
AUTOSCALER_WINDOW = _option(
    "job.autoscaler.metrics.window", at_least(1_000, duration_ms), 900_000, "Over how long (ms) load is averaged."
)
AUTOSCALER_STABILIZATION = _option(
    "job.autoscaler.stabilization.interval",
    at_least(0, duration_ms),
    300_000,
    "For how long (ms) after a start or a change load does not count.",
)

__all__ = [
    "ADAPTIVE_COOLDOWN",
    "ADAPTIVE_MIN_INCREASE",
    "ADAPTIVE_STABILIZATION",
    "AUTOSCALER",
    "AUTOSCALER_HIGHEST",
    "AUTOSCALER_LOWEST",
    "AUTOSCALER_MAX",
    "AUTOSCALER_MIN",
    "AUTOSCALER_STABILIZATION",
    "AUTOSCALER_TARGET",
    "AUTOSCALER_WINDOW",
    "SCHEDULER",
    "SLOT_REQUEST_TIMEOUT",
]
