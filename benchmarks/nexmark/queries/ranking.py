"""q18, q19: the last bid, and the ten highest; what is told replaces what was told of the same place."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from typing import Any

from events import Bid
from streams import Streams

from funken import DataStream, KeyedProcessFunction, ListStateDescriptor
from funken.operators.base import RuntimeContext

PLACES = 10


def latest(bid: Bid) -> Any:
    """Return what is largest for the last bid; of bids of the same ms, anything that decides."""
    return bid.date_time, bid.price, bid.channel, bid.url, bid.extra


def dearest(bid: Bid) -> Any:
    """Return what is smallest for the highest bid."""
    return -bid.price, bid.date_time, bid.bidder, bid.channel, bid.url, bid.extra


def q18(streams: Streams) -> DataStream:
    """Tell someone's last bid for an auction.

    SELECT auction, bidder, price, channel, url, dateTime, extra
    FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS rank_number FROM bid)
    WHERE rank_number <= 1
    """
    pairs = streams.bids.key_by(lambda bid: (bid.auction, bid.bidder))
    return pairs.reduce(lambda a, b: max(a, b, key=latest)).map(tuple)


class Highest(KeyedProcessFunction):
    """Keeps the highest bids of an auction; gives (auction, rank, bid) for each rank that has changed."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state."""
        self._highest = runtime_context.get_list_state(ListStateDescriptor("highest"))

    def process_element(self, value: Bid, ctx: Any) -> Iterator[Any]:
        """Find the place of a bid."""
        bids = self._highest.get()
        if len(bids) == PLACES and dearest(bids[-1]) < dearest(value):
            return
        insort(bids, value, key=dearest)
        del bids[PLACES:]
        self._highest.update(bids)
        first = bids.index(value)
        for rank, bid in enumerate(bids[first:], first + 1):
            yield bid.auction, rank, *bid[1:]


def q19(streams: Streams) -> DataStream:
    """Tell the ten highest bids of an auction.

    SELECT *
    FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid)
    WHERE rank_number <= 10
    """
    return streams.bids.key_by(lambda bid: bid.auction).process(Highest())
