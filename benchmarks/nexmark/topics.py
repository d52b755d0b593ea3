"""The events in Kafka, as JSON: a topic each for people, auctions and bids, whose partitions take turns as files do.

A document has the fields of its event, none of them null: ``{"auction":1004,"bidder":1001,...}``. In a partition the events are
in the order of event time, so nothing is late for a reader that looks at each partition for itself, as both systems do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from events import EVERY, Auction, Bid, Event, Nexmark, Person

KINDS: tuple[type[Event], ...] = (Person, Auction, Bid)


def topic_of(name: str, kind: type[Event]) -> str:
    """Return where the events of a kind are.

    >>> topic_of("few", Bid)
    'few-bid'
    """
    return f"{name}-{kind.__name__.lower()}"


def messages(
    nexmark: Nexmark, count: int, name: str, partitions: int
) -> Iterator[tuple[str, bytes | None, bytes, int]]:
    """Give topic, key, value and partition of the first ``count`` events.

    >>> found = [(topic, partition) for topic, _, _, partition in messages(Nexmark(), 100, "few", 2)]
    >>> found[0], found[1], found[49], found[50]
    (('few-person', 0), ('few-auction', 0), ('few-bid', 0), ('few-person', 1))
    """
    encode = json.JSONEncoder(separators=(",", ":")).encode
    topics = {kind: topic_of(name, kind) for kind in KINDS}
    for number in range(count):
        event = nexmark.event(number)
        kind = type(event)
        document = dict(zip(kind._fields, event, strict=True))
        yield topics[kind], None, encode(document).encode(), number // EVERY % partitions
