"""q4, q6, q9: who won an auction, and for how much; all three from one stream of auctions that are over.

As in the first publication of Nexmark, an auction counts when it is closed. (Flink's SQL counts open ones too, and
corrects itself with every bid; what it has said in the end is the same.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from events import Auction, Bid
from streams import Streams

from funken import (
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from funken.operators.base import RuntimeContext

LAST = 10


def rank(bid: Bid) -> Any:
    """Return what is smallest for the winner: the highest price, then the earliest bid, then anything that decides."""
    return (-bid.price, bid.date_time, bid.bidder, bid.channel, bid.url, bid.extra)


class Winners(KeyedCoProcessFunction):
    """Gives (auction, winning bid) once the auction is over; an auction without bids is left out."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state."""
        self._auction = runtime_context.get_state(ValueStateDescriptor("auction"))
        self._best = runtime_context.get_state(ValueStateDescriptor("best"))
        self._early = runtime_context.get_list_state(ListStateDescriptor("early"))
        self._last_early = runtime_context.get_state(ValueStateDescriptor("last early"))

    def process_element1(self, value: Auction, ctx: Any) -> None:
        """Open an auction; bids for it may have come by another way already."""
        self._auction.update(value)
        early = sorted([bid for bid in self._early if value.date_time <= bid.date_time <= value.expires], key=rank)
        if early:
            self._best.update(early[0])
        self._forget_early()
        ctx.timer_service().register_event_time_timer(value.expires)

    def process_element2(self, value: Bid, ctx: Any) -> None:
        """Count a bid, or keep it while an auction that opened before it may still come."""
        auction, best = self._auction.value(), self._best.value()
        if auction is None:
            self._early.add(value)
            last = self._last_early.value()
            if last is None or value.date_time > last:
                self._last_early.update(value.date_time)
            ctx.timer_service().register_event_time_timer(value.date_time)
        elif auction.date_time <= value.date_time <= auction.expires and (best is None or rank(value) < rank(best)):
            self._best.update(value)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Auction, Bid]]:
        """Close the auction, or drop bids for one that was over, or had not opened, when the last of them was made."""
        auction, best = self._auction.value(), self._best.value()
        if auction is None:
            if timestamp == self._last_early.value():
                self._forget_early()
        elif timestamp == auction.expires:
            self._auction.clear()
            self._best.clear()
            if best is not None:
                yield auction, best

    def _forget_early(self) -> None:
        self._early.clear()
        self._last_early.clear()


def winners(streams: Streams) -> DataStream:
    """Return the stream of (auction, winning bid)."""
    both = streams.auctions.connect(streams.bids)
    return both.key_by(lambda auction: auction.id, lambda bid: bid.auction).process(Winners()).name("winners")


def q4(streams: Streams) -> DataStream:
    """Tell the average price at which things of a category are sold.

    SELECT category, AVG(final)
    FROM (SELECT A.id, A.category, MAX(B.price) AS final FROM auction A JOIN bid B
          ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires GROUP BY A.id, A.category)
    GROUP BY category
    """
    finals = winners(streams).map(lambda pair: (pair[0].category, pair[1].price, 1))
    sums = finals.key_by(lambda row: row[0]).reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2]))
    return sums.map(lambda row: (row[0], row[1] // row[2]))


class LastPrices(KeyedProcessFunction):
    """Averages the prices of a seller's last auctions whenever one closes; those that close together by their number."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state."""
        self._closing = runtime_context.get_map_state(MapStateDescriptor("closing"))
        self._prices = runtime_context.get_list_state(ListStateDescriptor("prices"))

    def process_element(self, value: Any, ctx: Any) -> None:
        """Wait until all that close at this time have come."""
        _, expires, auction, price = value
        self._closing.put((expires, auction), price)
        ctx.timer_service().register_event_time_timer(expires)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int, int]]:
        """Take the auctions that close now, one by one."""
        prices = self._prices.get()
        for closing in sorted(key for key in self._closing.keys() if key[0] == timestamp):  # noqa: SIM118 - not a dict
            prices = [*prices, self._closing.get(closing)][-LAST:]
            self._closing.remove(closing)
            yield ctx.get_current_key(), sum(prices) // len(prices)
        self._prices.update(prices)


def q6(streams: Streams) -> DataStream:
    """Tell the average price of what a seller sold last, ten things at most.

    SELECT seller, AVG(final) OVER (PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
    FROM (the auctions of q4, with MAX(B.price) AS final)
    """
    closed = winners(streams).map(lambda pair: (pair[0].seller, pair[0].expires, pair[0].id, pair[1].price))
    return closed.key_by(lambda row: row[0]).process(LastPrices())


def q9(streams: Streams) -> DataStream:
    """Tell the winning bid of each auction.

    SELECT A.*, B.auction, B.bidder, B.price, B.dateTime, B.extra
    FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime) AS rownum
          FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires)
    WHERE rownum <= 1
    """
    return winners(streams).map(
        lambda pair: (*pair[0], pair[1].auction, pair[1].bidder, pair[1].price, pair[1].date_time, pair[1].extra)
    )
