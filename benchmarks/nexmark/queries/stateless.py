"""q0, q1, q2, q14, q21, q22: every bid for itself."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from streams import Streams

from funken import DataStream

CHANNEL_ID = re.compile(r"(?:&|^)channel_id=([^&]*)")
CHANNEL_IDS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}


def euros(dollars: int) -> Decimal:
    """Return 0.908 times a price."""
    return Decimal(908 * dollars).scaleb(-3)


def q0(streams: Streams) -> DataStream:
    """Hand bids on.

    SELECT auction, bidder, price, dateTime, extra FROM bid
    """
    return streams.bids.map(lambda bid: (bid.auction, bid.bidder, bid.price, bid.date_time, bid.extra))


def q1(streams: Streams) -> DataStream:
    """Convert prices from dollars to euros.

    SELECT auction, bidder, 0.908 * price, dateTime, extra FROM bid
    """
    return streams.bids.map(lambda bid: (bid.auction, bid.bidder, euros(bid.price), bid.date_time, bid.extra))


def q2(streams: Streams) -> DataStream:
    """Select the bids for some auctions.

    SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0
    """
    return streams.bids.filter(lambda bid: bid.auction % 123 == 0).map(lambda bid: (bid.auction, bid.price))


def time_type(at: int) -> str:
    """Return whether a time (ms) is by day, by night or in between."""
    hour = datetime.fromtimestamp(at / 1000, UTC).hour
    if 8 <= hour <= 18:
        return "dayTime"
    return "nightTime" if hour <= 6 or hour >= 20 else "otherTime"


def q14(streams: Streams) -> DataStream:
    """Find dear bids, and compute this and that.

    SELECT auction, bidder, 0.908 * price,
        CASE WHEN HOUR(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
             WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END,
        dateTime, extra, count_char(extra, 'c')
    FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
    """
    dear = streams.bids.filter(lambda bid: 1_000_000_000 < 908 * bid.price < 50_000_000_000)
    return dear.map(
        lambda bid: (
            bid.auction,
            bid.bidder,
            euros(bid.price),
            time_type(bid.date_time),
            bid.date_time,
            bid.extra,
            bid.extra.count("c"),
        )
    )


def channel_id(channel: str, url: str) -> str | None:
    """Return the id of a channel: that of a well-known name, or the one in the address."""
    known = CHANNEL_IDS.get(channel.lower())
    if known is None and (found := CHANNEL_ID.search(url)):
        return found[1]
    return known


def q21(streams: Streams) -> DataStream:
    """Add the id of the channel; leave out bids without one.

    SELECT auction, bidder, price, channel,
        CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
            ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
    FROM bid WHERE channel_id IS NOT NULL
    """
    known = streams.bids.map(lambda bid: (*bid[:4], channel_id(bid.channel, bid.url)))
    return known.filter(lambda row: row[4] is not None)


def q22(streams: Streams) -> DataStream:
    """Take the folders out of addresses.

    SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4), SPLIT_INDEX(url, '/', 5)
    FROM bid
    """

    def folders(bid: Any) -> Any:
        parts = bid.url.split("/")
        return bid.auction, bid.bidder, bid.price, bid.channel, parts[3], parts[4], parts[5]

    return streams.bids.map(folders)
