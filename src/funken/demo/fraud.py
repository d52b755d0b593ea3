"""The program of ``funken demo --chaos``: payments by the index, alarms by keyed state, and a count that can be checked.

Payment *i* is a function of *i* alone, so the generator is its own record: what the job should have found is computed again,
without Funken, and compared with what its sink committed (``Verdict``). Each card's state is how many payments it has seen, what
they add up to, and when the last small one was; a large payment within a minute of a small one is an alarm. A payment that
is lost or processed twice shows in a card's count and in its sum.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from funken import (
    DataGeneratorSource,
    Encoder,
    FileSink,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.dataclass import dataclass

CARDS = 500
SMALL_CENTS, LARGE_CENTS = 150, 90_000
WINDOW_MS = 60_000
_END_MS = 1 << 53
_SPREAD = 2_654_435_761


class Payment(NamedTuple):
    """A payment: time (ms), card, and amount."""

    at: int
    card: int
    cents: int


@dataclass(frozen=True)
class Payments:
    """The payments of one second after the other, ``rate`` each: ``payments(i)`` is the i-th.

    >>> Payments(1000)(7) == Payments(1000)(7), Payments(1000)(7).at
    (True, 7)
    """

    rate: int

    def __call__(self, index: int) -> Payment:
        """Return a payment."""
        mixed = (index * _SPREAD) % 4_294_967_296
        return Payment(index * 1000 // self.rate, mixed % CARDS, (mixed >> 9) % 100_000)


class Account:
    """The state of one card: number and sum of payments, and the time of the last small one (ms, ``None``: never)."""

    __slots__ = ("cents", "payments", "small_at")

    def __init__(self) -> None:
        self.payments = self.cents = 0
        self.small_at: int | None = None

    def pay(self, payment: Payment) -> bool:
        """Take a payment; return whether it is an alarm."""
        self.payments += 1
        self.cents += payment.cents
        alarm = payment.cents >= LARGE_CENTS and self.small_at is not None and payment.at - self.small_at <= WINDOW_MS
        if payment.cents < SMALL_CENTS:
            self.small_at = payment.at
        return alarm


class Watch(KeyedProcessFunction):
    """One ``Account`` per card in keyed state; at the end of the input it reports each account."""

    def open(self, runtime_context: Any) -> None:
        """Get the state."""
        self.account = runtime_context.get_state(ValueStateDescriptor("account"))
        self.alarms = runtime_context.get_metrics_group().counter("alarms")

    def process_element(self, value: Payment, ctx: Any) -> Iterator[tuple[Any, ...]]:
        """Take a payment."""
        account = self.account.value()
        if account is None:
            account = Account()
            ctx.timer_service().register_event_time_timer(_END_MS)
        alarm = account.pay(value)
        self.account.update(account)
        if alarm:
            self.alarms.inc()
            yield "alarm", value.card, value.at, value.cents

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        """Report the account: the input has ended."""
        account = self.account.value()
        yield "total", ctx.get_current_key(), account.payments, account.cents


def watch_payments(environment: StreamExecutionEnvironment, rate: int, count: int, folder: str) -> None:
    """Add the program to an environment: ``count`` payments, ``rate`` a second, results to files in ``folder``."""
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda payment, _: payment.at)
    payments = environment.from_source(DataGeneratorSource(Payments(rate), count, rate), by_time, "payments")
    found = payments.uid("payments").key_by(lambda payment: payment.card).process(Watch()).name("watch").uid("watch")
    sink = FileSink.for_row_format(folder, Encoder.simple_string_encoder()).build()
    found.map(json.dumps).name("as JSON").sink_to(sink).name("results").uid("results")


def results_in(folder: str) -> Iterator[tuple[Any, ...]]:
    """Return the committed results of the sink; prepared ones are in hidden files."""
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts):
            for line in path.read_text(encoding="utf-8").splitlines():
                yield tuple(json.loads(line))


def expected(rate: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Compute the results without Funken, from the generator's own record."""
    accounts: dict[int, Account] = {}
    payments = Payments(rate)
    for index in range(count):
        payment = payments(index)
        if accounts.setdefault(payment.card, Account()).pay(payment):
            yield "alarm", payment.card, payment.at, payment.cents
    for card, account in accounts.items():
        yield "total", card, account.payments, account.cents


@dataclass(frozen=True)
class Verdict:
    """A comparison of results with the right ones: payments and alarms lost and doubled, sums that differ.

    >>> right = [("alarm", 1, 10, 95_000), ("total", 1, 5, 99_000)]
    >>> print(Verdict.of(right, right))
    5 payments, 1 alarm: lost 0, doubled 0
    >>> print(Verdict.of(right, [*right[:1], *right[:1], ("total", 1, 4, 60_000)]))
    5 payments, 1 alarm: lost 1, doubled 0; alarms lost 0, doubled 1; 1 card with another sum
    """

    payments: int
    alarms: int
    lost: int
    doubled: int
    lost_alarms: int
    doubled_alarms: int
    wrong_sums: int

    @staticmethod
    def of(right: Iterable[tuple[Any, ...]], found: Iterable[tuple[Any, ...]]) -> Verdict:
        """Compare results with the right ones."""
        alarms, totals = _split(right)
        found_alarms, found_totals = _split(found)
        counts = {
            card: (rows[0][0], sum(row[0] for row in found_totals.get(card, []))) for card, rows in totals.items()
        }
        sums = [sum(row[1] for row in found_totals.get(card, [])) != rows[0][1] for card, rows in totals.items()]
        extra = sum(row[0] for card, rows in found_totals.items() if card not in totals for row in rows)
        return Verdict(
            sum(want for want, _ in counts.values()),
            alarms.total(),
            sum(max(0, want - have) for want, have in counts.values()),
            sum(max(0, have - want) for want, have in counts.values()) + extra,
            (alarms - found_alarms).total(),
            (found_alarms - alarms).total(),
            sum(sums),
        )

    @property
    def exact(self) -> bool:
        """True if everything was processed exactly once."""
        return not (self.lost or self.doubled or self.lost_alarms or self.doubled_alarms or self.wrong_sums)

    def __str__(self) -> str:
        text = f"{self.payments:,} payments, {self.alarms:,} alarm{'s' * (self.alarms != 1)}: "
        text += f"lost {self.lost:,}, doubled {self.doubled:,}"
        if self.lost_alarms or self.doubled_alarms:
            text += f"; alarms lost {self.lost_alarms:,}, doubled {self.doubled_alarms:,}"
        if self.wrong_sums:
            text += f"; {self.wrong_sums:,} card{'s' * (self.wrong_sums != 1)} with another sum"
        return text


def _split(results: Iterable[tuple[Any, ...]]) -> tuple[Counter[tuple[Any, ...]], dict[int, list[tuple[int, int]]]]:
    alarms: Counter[tuple[Any, ...]] = Counter()
    totals: dict[int, list[tuple[int, int]]] = {}
    for kind, card, *numbers in results:
        if kind == "alarm":
            alarms[card, *numbers] += 1
        else:
            totals.setdefault(card, []).append((numbers[0], numbers[1]))
    return alarms, totals
