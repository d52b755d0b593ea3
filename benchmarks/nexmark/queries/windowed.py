"""q5, q7, q11, q12: windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streams import Streams

from funken import (
    AggregateFunction,
    DataStream,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

SIZE, SLIDE = 10_000, 2_000


class Count(AggregateFunction):
    """Counts."""

    def create_accumulator(self) -> int:
        """Begin at 0."""
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        """Count a record."""
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        """Return the count."""
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        """Add two counts."""
        return acc_a + acc_b


class Largest(AggregateFunction):
    """Keeps the records with the largest value, all of them if there are several."""

    def __init__(self, by: Callable[[Any], Any]) -> None:
        self._by = by

    def create_accumulator(self) -> list[Any]:
        """Begin with none."""
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        """Keep a record, if it is not smaller than those kept."""
        if not accumulator:
            return [value]
        new, kept = self._by(value), self._by(accumulator[0])
        if new == kept:
            return [*accumulator, value]
        return [value] if new > kept else accumulator

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        """Return them."""
        return accumulator


def q5(streams: Streams) -> DataStream:
    """Tell, every 2 seconds, which auctions had the most bids in the last 10.

    SELECT auction, num
    FROM (SELECT auction, count(*) AS num, endtime FROM HOP(bid, 2 s, 10 s) GROUP BY auction, endtime) AS counts
    WHERE num = (SELECT max(num) FROM counts AS others WHERE others.endtime = counts.endtime)
    """
    windows = streams.bids.map(lambda bid: bid.auction).key_by(lambda auction: auction)
    counts = windows.window(SlidingEventTimeWindows.of(SIZE, SLIDE)).aggregate(
        Count(), lambda auction, window, counts: [(auction, count, window.end) for count in counts]
    )
    # A result's time is the last ms of its window: those of windows that end together meet in one of the slide's length.
    hottest = counts.key_by(lambda count: count[2]).window(TumblingEventTimeWindows.of(SLIDE))
    return hottest.aggregate(Largest(lambda count: count[1])).flat_map(lambda counts: [count[:2] for count in counts])


def q7(streams: Streams) -> DataStream:
    """Tell the highest bids of every 10 seconds.

    SELECT B.auction, B.bidder, B.price, B.dateTime, B.extra
    FROM bid B JOIN (SELECT MAX(price) AS price, starttime, endtime FROM TUMBLE(bid, 10 s) GROUP BY ALL) M
    ON B.price = M.price AND B.dateTime >= M.starttime AND B.dateTime < M.endtime
    """
    bids = streams.bids.map(lambda bid: (bid.auction, bid.bidder, bid.price, bid.date_time, bid.extra))
    windows = TumblingEventTimeWindows.of(SIZE)
    # In parallel by auction first, so that the one subtask that sees all auctions sees few bids of each.
    local = bids.key_by(lambda bid: bid[0]).window(windows).aggregate(Largest(lambda bid: bid[2]))
    highest = local.flat_map(lambda bids: bids).window_all(windows).aggregate(Largest(lambda bid: bid[2]))
    return highest.flat_map(lambda bids: bids)


def q11(streams: Streams) -> DataStream:
    """Count what people bid until they pause for 10 seconds.

    SELECT bidder, count(*), SESSION_START, SESSION_END FROM bid GROUP BY bidder, SESSION(dateTime, 10 s)
    """
    bidders = streams.bids.map(lambda bid: bid.bidder).key_by(lambda bidder: bidder)
    return bidders.window(EventTimeSessionWindows.with_gap(SIZE)).aggregate(
        Count(), lambda bidder, window, counts: [(bidder, count, window.start, window.end) for count in counts]
    )


def q12(streams: Streams) -> DataStream:
    """Count what people bid in 10 seconds by the clock.

    SELECT bidder, count(*), starttime, endtime FROM TUMBLE(bid, PROCTIME(), 10 s) GROUP BY bidder, starttime, endtime
    """
    bidders = streams.bids.map(lambda bid: bid.bidder).key_by(lambda bidder: bidder)
    return bidders.window(TumblingProcessingTimeWindows.of(SIZE)).aggregate(
        Count(), lambda bidder, window, counts: [(bidder, count, window.start, window.end) for count in counts]
    )
