"""q15, q16, q17: what happened on a day so far, told anew with every bid."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from streams import Streams

from funken import DataStream, KeyedProcessFunction, MapStateDescriptor, ValueStateDescriptor
from funken.operators.base import RuntimeContext

CHEAP, DEAR = 10_000, 1_000_000
MINUTE, HOUR = 60_000, 3_600_000
NOTHING = 0, (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)


def day(at: int) -> str:
    """Return the day of a time (ms)."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d")


def minute(at: int) -> str:
    """Return the time of day of a time (ms), to the minute."""
    return f"{at // HOUR % 24:02d}:{at // MINUTE % 60:02d}"


def level(price: int) -> int:
    """Return the level of a price: 1, 2 or 3."""
    return 1 if price < CHEAP else 2 if price < DEAR else 3


def counted(counts: tuple[int, int, int, int], bits: int) -> tuple[int, int, int, int]:
    """Return counts, in all and by level of price, with one more where a bit is set."""
    return counts[0] + (bits & 1), counts[1] + (bits >> 1 & 1), counts[2] + (bits >> 2 & 1), counts[3] + (bits >> 3 & 1)


class Report(KeyedProcessFunction):
    """Counts bids, bidders and auctions, each in all and by level of price; gives (key, latest minute, the 12 counts).

    Bidders and auctions count once: the state has a bit for each level at which one was seen, and one for all, as in Flink's SQL.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state."""
        self._report = runtime_context.get_state(ValueStateDescriptor("report"))
        self._bidders = runtime_context.get_map_state(MapStateDescriptor("bidders"))
        self._auctions = runtime_context.get_map_state(MapStateDescriptor("auctions"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """Count a bid."""
        _, at, bidder, auction, price = value
        bits = 1 | 1 << level(price)
        of_bidder = self._bidders.get(bidder) or 0
        self._bidders.put(bidder, of_bidder | bits)
        of_auction = self._auctions.get(auction) or 0
        self._auctions.put(auction, of_auction | bits)
        latest, bids, bidders, auctions = self._report.value() or NOTHING
        latest, bids = max(latest, at), counted(bids, bits)
        bidders, auctions = counted(bidders, bits & ~of_bidder), counted(auctions, bits & ~of_auction)
        self._report.update((latest, bids, bidders, auctions))
        yield ctx.get_current_key(), minute(latest), *bids, *bidders, *auctions


def q15(streams: Streams) -> DataStream:
    """Count bids, bidders and auctions of a day, by level of price.

    SELECT day, count(*), count(*) FILTER (WHERE price < 10000), ..., count(distinct bidder), ..., count(distinct auction), ...
    FROM bid GROUP BY DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS day
    """
    bids = streams.bids.map(lambda bid: (day(bid.date_time), bid.date_time, bid.bidder, bid.auction, bid.price))
    return bids.key_by(lambda bid: bid[0]).process(Report()).map(lambda row: (row[0], *row[2:]))


def q16(streams: Streams) -> DataStream:
    """Count them of a channel and a day, and tell when the last one was.

    SELECT channel, day, max(minute), the counts of q15 FROM bid GROUP BY channel, day
    """
    bids = streams.bids.map(
        lambda bid: ((bid.channel, day(bid.date_time)), bid.date_time, bid.bidder, bid.auction, bid.price)
    )
    return bids.key_by(lambda bid: bid[0]).process(Report()).map(lambda row: (*row[0], *row[1:]))


def q17(streams: Streams) -> DataStream:
    """Tell the number and the prices of an auction's bids of a day.

    SELECT auction, day, count(*), count(*) FILTER (WHERE price < 10000), ...,
        min(price), max(price), avg(price), sum(price) FROM bid GROUP BY auction, day
    """

    def prepared(bid: Any) -> Any:
        price, of = bid.price, level(bid.price)
        levels = int(of == 1), int(of == 2), int(of == 3)
        return (bid.auction, day(bid.date_time)), 1, *levels, price, price, price

    def add(a: Any, b: Any) -> Any:
        levels = a[2] + b[2], a[3] + b[3], a[4] + b[4]
        return a[0], a[1] + b[1], *levels, min(a[5], b[5]), max(a[6], b[6]), a[7] + b[7]

    reports = streams.bids.map(prepared).key_by(lambda row: row[0]).reduce(add)
    return reports.map(lambda row: (*row[0], *row[1:7], row[7] // row[1], row[7]))
