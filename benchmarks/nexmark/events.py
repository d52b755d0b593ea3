"""The events of Nexmark, an auction house: people come, auctions open, bids are made. Event ``n`` is a function of ``n``.

The numbers are those of the public specification (https://github.com/nexmark/nexmark): of 50 events one is a person, the
next three are auctions, the others bids; half of the bids go to one hot auction, three of four come from a hot bidder;
prices are even on a logarithmic scale from 1 to 1,000,000. Event time follows from the number and a rate.

No generator's state is behind an event, so any subtask makes any event, in any order and again: what is random in it is
taken from a hash of the seed and its number.
"""

from __future__ import annotations

import random
import string
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from funken import DataGeneratorSource

PEOPLE, AUCTIONS, EVERY = 1, 3, 50
"""So many of 50 events are people and auctions, and come first; the others are bids."""

FIRST_PERSON, FIRST_AUCTION, FIRST_CATEGORY, CATEGORIES = 1000, 1000, 10, 5
HOT_SELLERS = 4
"""One of so many auctions is anyone's; the others are a hot seller's."""

HOT_BATCH = 100
"""Of so many auctions or people one is hot, while they are the newest."""

IN_FLIGHT, ACTIVE, LEAD = 100, 1000, 10
"""Bids go to the newest auctions, and come from the newest people, and from a few that are yet to come."""

CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CITIES: tuple[str, ...] = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland")
CITIES += ("Bend", "Redmond", "Seattle", "Kent", "Cheyenne")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")

# Random letters cost more than all else in an event; texts are pieces of this one.
LETTERS = 4096
NAME, WORDS, WORD32 = Struct("<2Q"), Struct("<4Q"), 0xFFFFFFFF
TEXT = "".join(random.Random("nexmark").choices(string.ascii_lowercase, k=LETTERS + 512))


class Person(NamedTuple):
    """Someone who may sell and bid; times are ms since the epoch."""

    id: int
    name: str
    email: str
    credit_card: str
    city: str
    state: str
    date_time: int
    extra: str


class Auction(NamedTuple):
    """Something for sale; prices are cents."""

    id: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    date_time: int
    expires: int
    seller: int
    category: int
    extra: str


class Bid(NamedTuple):
    """An offer for an auction."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: int
    extra: str


Event = Person | Auction | Bid


class Draws:
    """Random numbers out of one large one: each draw takes its part of it, as of a number with mixed digits."""

    __slots__ = ("_left",)

    def __init__(self, seed: int, number: int) -> None:
        self._left = int.from_bytes(_digest(seed, number), "big")

    def below(self, bound: int) -> int:
        """Return a number from 0 to ``bound`` less one."""
        self._left, drawn = divmod(self._left, bound)
        return drawn

    def price(self) -> int:
        """Return cents: as many from 1 to 10 as from 100,000 to 1,000,000."""
        return round(10 ** (self.below(1 << 32) / (1 << 32) * 6) * 100)

    def text(self, shortest: int, longest: int) -> str:
        """Return letters."""
        start = self.below(LETTERS)
        return TEXT[start : start + shortest + self.below(longest - shortest + 1)]


@dataclass(frozen=True)
class Nexmark:
    """The events of a seed: ``rate`` of them a second of event time, which begins at ``start`` (ms)."""

    seed: int = 1
    rate: float = 10_000
    start: int = 1_709_164_770_000
    """Half a minute before the end of February 28, 2024, so that few events are enough to see a day end."""

    def event(self, number: int) -> Event:
        """Return an event."""
        epoch, place = divmod(number, EVERY)
        at, people = self.time(number), (epoch + 1) * PEOPLE
        if place >= PEOPLE + AUCTIONS:
            return self._bid(number, (epoch + 1) * AUCTIONS, people, at)
        draws = Draws(self.seed, number)
        if place < PEOPLE:
            return self._person(epoch * PEOPLE + place, draws, at)
        return self._auction(number, epoch * AUCTIONS + place - PEOPLE, people, draws, at)

    def time(self, number: int) -> int:
        """Return when an event happens (ms)."""
        return self.start + int(number * 1000 / self.rate)

    def source(self, count: int | None = None) -> DataGeneratorSource:
        """Return a source of the first ``count`` events, or of all that come."""
        return DataGeneratorSource(self.event, count)

    def _person(self, number: int, draws: Draws, at: int) -> Person:
        first, last = FIRST_NAMES[draws.below(len(FIRST_NAMES))], LAST_NAMES[draws.below(len(LAST_NAMES))]
        card = f"{draws.below(10**16):016}"
        return Person(
            id=FIRST_PERSON + number,
            name=f"{first} {last}",
            email=f"{draws.text(3, 7)}@{draws.text(3, 5)}.com",
            credit_card=" ".join(card[i : i + 4] for i in range(0, 16, 4)),
            city=CITIES[draws.below(len(CITIES))],
            state=STATES[draws.below(len(STATES))],
            date_time=at,
            extra=draws.text(100, 160),
        )

    def _auction(self, event: int, number: int, people: int, draws: Draws, at: int) -> Auction:
        hot = draws.below(HOT_SELLERS) > 0
        seller = (people - 1) // HOT_BATCH * HOT_BATCH if hot else _anyone(people, draws.below(1 << 32))
        # On average it is open until as many more have opened as are open at a time.
        until = self.time(event + IN_FLIGHT * EVERY // AUCTIONS)
        initial = draws.price()
        return Auction(
            id=FIRST_AUCTION + number,
            item_name=draws.text(3, 20),
            description=draws.text(20, 100),
            initial_bid=initial,
            reserve=initial + draws.price(),
            date_time=at,
            expires=at + 1 + draws.below(max(1, 2 * (until - at))),
            seller=FIRST_PERSON + seller,
            category=FIRST_CATEGORY + draws.below(CATEGORIES),
            extra=draws.text(250, 390),
        )

    def _bid(self, number: int, auctions: int, people: int, at: int) -> Bid:
        # Hot: 46 of 50 events. With arithmetic on four words a bid takes 2.6 us, with Draws 3.5, side by side.
        for_, by, on, extra = WORDS.unpack(_digest(self.seed, number))
        if for_ & 1:
            auction = (auctions - 1) // HOT_BATCH * HOT_BATCH
        else:
            oldest = max(0, auctions - 1 - IN_FLIGHT)
            auction = oldest + (for_ >> 1) % (auctions - oldest + LEAD)
        # The second of a batch: hot bidders are not the hot sellers.
        bidder = (people - 1) // HOT_BATCH * HOT_BATCH + 1 if by & 3 else _anyone(people, by >> 2)
        channel, url = _channel((on >> 32) % (2 * CHANNELS))
        start, longer = extra % LETTERS, (extra >> 32) % 28
        price = round(10 ** ((on & WORD32) / 2**32 * 6) * 100)
        return Bid(
            FIRST_AUCTION + auction,
            FIRST_PERSON + bidder,
            price,
            channel,
            url,
            at,
            TEXT[start : start + 54 + longer],
        )


def _digest(seed: int, number: int) -> bytes:
    return blake2b(NAME.pack(seed, number), digest_size=32).digest()


def _anyone(people: int, drawn: int) -> int:
    """Return one of the newest people, or of the next ones."""
    active = min(people, ACTIVE)
    return people - active + drawn % (active + LEAD)


@cache
def _channel(number: int) -> tuple[str, str]:
    """Return a channel and its page: one of many, or, from ``CHANNELS`` on, a hot one.

    Nine of ten pages of channels that are not hot name the channel's id.
    """
    hot = number >= CHANNELS
    number = number % len(HOT_CHANNELS) if hot else number
    draws = Draws(hot, number)
    folders = "/".join(draws.text(5, 5) for _ in range(3))
    url = f"https://www.nexmark.com/{folders}/item.htm?query=1"
    if hot:
        return HOT_CHANNELS[number], url
    return f"channel-{number}", f"{url}&channel_id={draws.below(1 << 30)}" if draws.below(10) else url
