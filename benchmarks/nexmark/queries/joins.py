"""q3, q8, q13, q20, q23: people, auctions and bids that belong together."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from events import Auction, Bid, Person
from streams import Streams

from funken import (
    DataStream,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from funken.operators.base import RuntimeContext

SIDE_KEYS = 10_000
WINDOW = 10_000


class OneToMany(KeyedCoProcessFunction):
    """Pairs the one record of a key in the first stream with all of the second, whichever comes first.

    As of a join without windows in SQL, the state grows for ever.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state."""
        self._one = runtime_context.get_state(ValueStateDescriptor("one"))
        self._waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        """Pair the one with those that wait for it."""
        self._one.update(value)
        for other in self._waiting:
            yield value, other
        self._waiting.clear()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        """Pair one of the many, or let it wait."""
        one = self._one.value()
        if one is None:
            self._waiting.add(value)
        else:
            yield one, value


def q3(streams: Streams) -> DataStream:
    """Tell who sells something of a category in some states.

    SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id
    WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')
    """
    near = streams.people.filter(lambda person: person.state in ("OR", "ID", "CA"))
    items = streams.auctions.filter(lambda auction: auction.category == 10)
    pairs = near.connect(items).key_by(lambda person: person.id, lambda auction: auction.seller).process(OneToMany())
    return pairs.map(lambda pair: (pair[0].name, pair[0].city, pair[0].state, pair[1].id))


def q8(streams: Streams) -> DataStream:
    """Tell who came and opened an auction in the same 10 seconds.

    SELECT P.id, P.name, P.starttime
    FROM (SELECT id, name, starttime, endtime FROM TUMBLE(person, 10 s) GROUP BY ALL) P
    JOIN (SELECT seller, starttime, endtime FROM TUMBLE(auction, 10 s) GROUP BY ALL) A
    ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime
    """
    grouped = streams.people.co_group(streams.auctions).where(lambda person: person.id)
    windows = grouped.equal_to(lambda auction: auction.seller).window(TumblingEventTimeWindows.of(WINDOW))
    return windows.apply(
        lambda people, auctions: [(p.id, p.name, p.date_time // WINDOW * WINDOW) for p in people if auctions]
    )


def side_input(folder: str) -> Path:
    """Write the table for q13, key and value; every seventh key is missing, so that the join has something to drop."""
    path = Path(folder) / "side_input.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows((key, f"value-{key}") for key in range(SIDE_KEYS) if key % 7)
    return path


class Lookup(FlatMapFunction):
    """Adds the value of the auction's number, from a table that is read once per subtask."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: dict[int, str] = {}

    def open(self, runtime_context: RuntimeContext) -> None:
        """Read the table."""
        with self._path.open(newline="") as file:
            self._values = {int(key): value for key, value in csv.reader(file)}

    def flat_map(self, value: Any) -> Iterator[Any]:
        """Add the value, if there is one."""
        found = self._values.get(value.auction % SIDE_KEYS)
        if found is not None:
            yield value.auction, value.bidder, value.price, value.date_time, found


def q13(streams: Streams) -> DataStream:
    """Enrich bids from a table that does not change.

    SELECT B.auction, B.bidder, B.price, B.dateTime, S.value
    FROM bid B JOIN side_input FOR SYSTEM_TIME AS OF B.proctime AS S ON MOD(B.auction, 10000) = S.key
    """
    return streams.bids.flat_map(Lookup(side_input(streams.folder)))


def q20(streams: Streams) -> DataStream:
    """Add to bids for things of a category what they are for.

    SELECT B.*, A.itemName, A.description, A.initialBid, A.reserve, A.dateTime, A.expires, A.seller, A.category, A.extra
    FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10
    """
    items = streams.auctions.filter(lambda auction: auction.category == 10)
    pairs = items.connect(streams.bids).key_by(lambda auction: auction.id, lambda bid: bid.auction).process(OneToMany())
    return pairs.map(lambda pair: (*pair[1], *pair[0][1:]))


class Owned(KeyedProcessFunction):
    """Combines a person with each pair of a bid and an auction of theirs, whichever of the three comes last."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state."""
        self._person = runtime_context.get_state(ValueStateDescriptor("person"))
        self._bids = runtime_context.get_list_state(ListStateDescriptor("bids"))
        self._auctions = runtime_context.get_list_state(ListStateDescriptor("auctions"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """Give the combinations that are new with this record."""
        person, bids, auctions = self._person.value(), self._bids.get(), self._auctions.get()
        if type(value) is Bid:
            self._bids.add(value)
            bids = [value]
        elif type(value) is Auction:
            self._auctions.add(value)
            auctions = [value]
        else:
            self._person.update(value)
            person = value
        if person is not None:
            yield from ((bid, person, auction) for bid in bids for auction in auctions)


def owner(event: Any) -> int:
    """Return who an event is, who sells it, or who made it."""
    if type(event) is Bid:
        return event.bidder
    return event.id if type(event) is Person else event.seller


def q23(streams: Streams) -> DataStream:
    """Add to bids of people who sell something what they sell, and who they are.

    SELECT B.bidder, B.price, B.channel, B.url, B.extra, P.id, P.name, P.emailAddress, P.creditCard, P.city, P.state, P.extra,
        A.itemName, A.description, A.initialBid, A.reserve, A.dateTime, A.expires, A.seller, A.category, A.extra
    FROM bid B JOIN person P ON P.id = B.bidder JOIN auction A ON A.seller = B.bidder
    """
    owned = streams.people.union(streams.auctions, streams.bids).key_by(owner).process(Owned())
    return owned.map(lambda of: (*of[0][1:5], of[0].extra, *of[1][:6], of[1].extra, *of[2][1:]))
