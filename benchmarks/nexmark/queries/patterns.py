"""p1 to p3: patterns of bids. What is right is found by plain loops over the events of each auction.

Many events happen in the same millisecond: a comparator orders them by their fields, auctions before bids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from events import Auction, Bid, Nexmark
from streams import Query, Streams

from funken import DataStream
from funken.cep import CEP, AfterMatchSkipStrategy, ConditionContext, Pattern

WAR, JUMP, WINDOW = 5, 10, 10_000
"""Bids of a war at least, how many times as high a price jumps, and in which time (ms)."""


def place(event: Auction | Bid) -> tuple[Any, ...]:
    """Return what events of an auction are ordered by."""
    return event.date_time, type(event) is Bid, tuple(event)


def earlier(one: Auction | Bid, other: Auction | Bid) -> int:
    """Compare two events."""
    return (place(one) > place(other)) - (place(one) < place(other))


def another_bidder(bid: Bid, ctx: ConditionContext) -> bool:
    """Whether a bid is by another bidder than the one before it."""
    before = ctx.get_events_for_pattern("war")
    return not before or before[-1].bidder != bid.bidder


def p1(streams: Streams) -> DataStream:
    """Give auctions in which five bids or more in a row were each by another bidder than the one before, and how many."""
    war = Pattern.begin("war", AfterMatchSkipStrategy.skip_past_last_event()).where(another_bidder)
    war = war.times_or_more(WAR).consecutive().greedy().next("end")
    bids = streams.bids.key_by(lambda bid: bid.auction)
    return CEP.pattern(bids, war, earlier).select(lambda match: (match["end"][0].auction, len(match["war"])))


def p2(streams: Streams) -> DataStream:
    """Give bids that another one of the auction exceeds ten times within ten seconds, with the first that does."""
    jump = Pattern.begin("low", AfterMatchSkipStrategy.skip_to_next()).followed_by("high")
    jump = jump.where(lambda bid, ctx: bid.price >= JUMP * ctx.get_events_for_pattern("low")[0].price).within(WINDOW)
    bids = streams.bids.key_by(lambda bid: bid.auction)
    return CEP.pattern(bids, jump, earlier).select(
        lambda match: (match["low"][0].auction, match["low"][0].price, match["high"][0].price)
    )


def p3(streams: Streams) -> DataStream:
    """Give auctions that get no bid in their first ten seconds."""
    silent = Pattern.begin("auction").where(lambda event: type(event) is Auction)
    silent = silent.not_followed_by("bid").where(lambda event: type(event) is Bid).within(WINDOW)
    events = streams.auctions.union(streams.bids)
    keyed = events.key_by(lambda event: event.auction if type(event) is Bid else event.id)
    return CEP.pattern(keyed, silent, earlier).select(lambda match: (match["auction"][0].id,))


# ---- what is right


def by_auction(nexmark: Nexmark, count: int, kinds: tuple[type, ...]) -> Iterator[list[Any]]:
    """Yield the events of each auction, in order."""
    found: dict[int, list[Any]] = defaultdict(list)
    for event in map(nexmark.event, range(count)):
        if type(event) in kinds:
            found[event.auction if isinstance(event, Bid) else event.id].append(event)
    for events in found.values():
        yield sorted(events, key=place)


def wars(nexmark: Nexmark, count: int) -> list[tuple[Any, ...]]:
    """Return the rows of p1."""
    rows = []
    for bids in by_auction(nexmark, count, (Bid,)):
        begin = 0
        while begin < len(bids):
            end = begin + 1
            while end < len(bids) and bids[end].bidder != bids[end - 1].bidder:
                end += 1
            complete = end < len(bids) and end - begin >= WAR
            if complete:
                rows.append((bids[end].auction, end - begin))
            begin = end + complete
    return rows


def jumps(nexmark: Nexmark, count: int) -> list[tuple[Any, ...]]:
    """Return the rows of p2."""
    rows = []
    for bids in by_auction(nexmark, count, (Bid,)):
        for index, low in enumerate(bids):
            soon = (bid for bid in bids[index + 1 :] if bid.date_time < low.date_time + WINDOW)
            high = next((bid.price for bid in soon if bid.price >= JUMP * low.price), None)
            if high is not None:
                rows.append((low.auction, low.price, high))
    return rows


def unsold(nexmark: Nexmark, count: int) -> list[tuple[Any, ...]]:
    """Return the rows of p3."""
    rows = []
    for events in by_auction(nexmark, count, (Auction, Bid)):
        for index, auction in enumerate(events):
            if isinstance(auction, Auction):
                end = auction.date_time + WINDOW
                if not any(event.date_time < end for event in events[index + 1 :]):
                    rows.append((auction.id,))
    return rows


PATTERNS = {
    query.name: query
    for query in (
        Query("p1", "bid war", p1, right=wars, note="a pattern; the suite has no such query"),
        Query("p2", "price jump", p2, right=jumps, note="a pattern; the suite has no such query"),
        Query("p3", "unsold", p3, right=unsold, note="a pattern; the suite has no such query"),
    )
}
