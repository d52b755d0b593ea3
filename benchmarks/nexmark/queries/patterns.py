"""Patterns of bids: the suite's four queries with MATCH_RECOGNIZE (cep0 to cep3), and three of the pattern API (p1 to p3).

Many events happen in the same millisecond: they are ordered by their fields, auctions before bids.
"""

from __future__ import annotations

from typing import Any

from events import Auction, Bid
from streams import Query, Streams

from funken import DataStream
from funken.cep import CEP, AfterMatchSkipStrategy, ConditionContext, Pattern, match_recognize

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


def recognized(streams: Streams, measures: str, pattern: str) -> DataStream:
    """Return the matches of a clause among the bids of each bidder for an auction, as tuples."""
    rows = match_recognize(
        f"""MATCH_RECOGNIZE (
            PARTITION BY auction, bidder ORDER BY date_time, price, channel, url, extra MEASURES {measures} {pattern})""",
        streams.bids,
    )
    return rows.map(tuple)


AVERAGE = "FIRST(A.date_time) AS start_tstamp, LAST(A.date_time) AS end_tstamp, AVG(A.price) AS avg_price"


def cep0(streams: Streams) -> DataStream:
    """Give the times of falling prices of a bidder."""
    return recognized(
        streams,
        """START_ROW.date_time AS start_tstamp, LAST(PRICE_DOWN.date_time) AS bottom_tstamp,
        LAST(PRICE_UP.date_time) AS end_tstamp""",
        """AFTER MATCH SKIP TO LAST PRICE_UP
        PATTERN (START_ROW PRICE_DOWN+ PRICE_UP)
        DEFINE
            PRICE_DOWN AS PRICE_DOWN.price < COALESCE(LAST(PRICE_DOWN.price, 1), START_ROW.price),
            PRICE_UP AS PRICE_UP.price > LAST(PRICE_DOWN.price, 1)""",
    )


def cep1(streams: Streams) -> DataStream:
    """Give the times in which the average price of a bidder was low."""
    return recognized(
        streams, AVERAGE, "AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ B) DEFINE A AS AVG(A.price) < 10000"
    )


def cep2(streams: Streams) -> DataStream:
    """Give the same from every bid on."""
    return recognized(streams, AVERAGE, "AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ B) DEFINE A AS AVG(A.price) < 10000")


def cep3(streams: Streams) -> DataStream:
    """Give where the price of a bidder dropped by more than 50 within 5 seconds."""
    return recognized(
        streams,
        "C.date_time AS drop_time, A.price - C.price AS drop_diff",
        """AFTER MATCH SKIP PAST LAST ROW
        PATTERN (A B* C) WITHIN INTERVAL '5' SECOND
        DEFINE B AS B.price > A.price - 50, C AS C.price < A.price - 50""",
    )


TIES = "bids of one millisecond are ordered by their fields"
OURS = "the suite has no such query"

PATTERNS = {
    query.name: query
    for query in (
        Query("cep0", "falling prices", cep0, note=TIES),
        Query("cep1", "low average", cep1, note=TIES),
        Query("cep2", "low average, from each bid", cep2, note=TIES),
        Query("cep3", "price drop in an interval", cep3, note=TIES),
        Query("p1", "bid war", p1, note=OURS),
        Query("p2", "price jump", p2, note=OURS),
        Query("p3", "unsold", p3, note=OURS),
    )
}
