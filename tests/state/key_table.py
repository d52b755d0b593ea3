"""A table of keys: each entry has keys that are equal, of any class, and no key is equal to one of another entry."""
# ruff: noqa: DTZ001 - times of no zone are keys as well

import dataclasses
import datetime as dt
import enum
import ipaddress
import math
import pathlib
import re
import time
import uuid
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import numpy as np
import pandas as pd

from funken import Row
from funken.dataclass import dataclass as own_dataclass

NEW_YORK, BERLIN = ZoneInfo("America/New_York"), ZoneInfo("Europe/Berlin")
UTC = dt.UTC
HOUR = dt.timezone(dt.timedelta(hours=1))


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Other(enum.Enum):
    RED = 1


class Status(str, enum.Enum):  # noqa: UP042 - it is not a StrEnum
    OPEN = "open"


class Word(enum.StrEnum):
    OPEN = "open"


class Level(enum.IntEnum):
    LOW = 1


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Mode(enum.IntFlag):
    A = 1
    B = 2


class Place(tuple, enum.Enum):
    HERE = (1, 2)


class Half(float, enum.Enum):
    IT = 0.5


class Text(str):
    def __str__(self):
        return "all alike"

    __repr__ = __str__


class Number(int):
    pass


class Real(float):
    pass


class Parts(tuple):
    __slots__ = ()


class Day(dt.date):
    pass


class Moment(dt.datetime):
    pass


class Ids(frozenset):
    pass


Pair = namedtuple("Pair", "a b")
Two = namedtuple("Two", "x y")


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    y: Any = 0


@dataclasses.dataclass(frozen=True)
class Twin:
    x: Any
    y: Any = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    x: Any


@dataclasses.dataclass(frozen=True)
class Noted:
    x: Any
    note: Any = dataclasses.field(compare=False, default=None)


@dataclasses.dataclass(frozen=True)
class HalfHashed:
    x: Any
    y: Any = dataclasses.field(hash=False, default=0)


@own_dataclass(frozen=True)
class Owned:
    x: Any


class Derived(Point):
    pass


@attrs.frozen
class Attributes:
    x: Any
    note: Any = attrs.field(eq=False, default=None)


@attrs.frozen
class Lowered:
    x: Any = attrs.field(eq=str.lower)


class Folded:
    """A name without case: two that are equal are not pickled alike."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return isinstance(other, Folded) and self.name.lower() == other.name.lower()

    def __hash__(self):
        return hash(self.name.lower())

    def __repr__(self):
        return f"Folded({self.name!r})"

    def __stable_hash__(self):
        return sum(map(ord, self.name.lower()))


def nan():
    return float("nan")


EQUAL: list[list[Any]] = [
    [None],
    [...],
    [NotImplemented],
    [0, False, 0.0, -0.0, Decimal(0), Decimal("-0"), Fraction(0), 0j, np.int8(0), np.float32(-0.0), np.bool_(False)],
    [1, True, 1.0, Decimal(1), Decimal("1.00"), Fraction(1), 1 + 0j, Level.LOW, Mode.A, Number(1), Real(1), np.int64(1),
     np.uint8(1), np.float16(1), np.float64(1), np.longdouble(1), np.bool_(True), np.complex64(1)],
    [-1, -1.0, np.int16(-1)],
    [3, Mode.A | Mode.B, np.uint64(3)],
    [0.5, Decimal("0.5"), Fraction(1, 2), Half.IT, np.float32(0.5), np.float64(0.5), 0.5 + 0j],
    [0.1, np.float64(0.1), Real(0.1)],
    [Decimal("0.1"), Fraction(1, 10)],
    [np.float32(0.1), float(np.float32(0.1))],
    [np.longdouble("0.1")] if np.longdouble("0.1") != np.longdouble(0.1) else [],
    [2**53 + 1, np.int64(2**53 + 1), Decimal(2**53 + 1)],
    [2.0**53, 2**53],
    [2**64 - 1, np.uint64(2**64 - 1)],
    [1 << 1000, Decimal(1 << 1000)],
    [Decimal("1E+200000")],
    [math.inf, Decimal("inf"), np.float32("inf")],
    [-math.inf, Decimal("-inf")],
    [1j, np.complex128(1j)],
    [1 + 2j, np.complex64(1 + 2j)],
    [nan(), nan(), -nan(), math.nan, Decimal("NaN"), Decimal("-NaN"), Decimal("NaN7"), np.float32("nan"), np.float64("nan"),
     np.longdouble("nan"), Real("nan"), complex(nan(), 0)],
    [complex(nan(), 1), np.complex128(complex(nan(), 1))],
    [complex(1, nan()), complex(True, nan())],
    [complex(nan(), nan())],
    [""],
    ["open", Status.OPEN, Word.OPEN, Text("open"), np.str_("open")],
    ["all alike", Text("all alike")],
    ["shut", Text("shut")],
    ["1"],
    ["nan"],
    ["\ud800"],
    ["a\0b"],
    [b"open", np.bytes_(b"open")],
    [b""],
    [()],
    [(1, 2), Pair(1, 2), Two(True, 2.0), Parts((1, 2)), Place.HERE],
    [(2, 1), Pair(2, 1)],
    [("open", nan()), (Status.OPEN, Decimal("NaN")), Pair(Text("open"), nan())],
    [(("a", (nan(),)), 1), (("a", (np.float32("nan"),)), True)],
    [(nan(),), Parts((nan(),))],
    [(None,)],
    [("a", "b")],
    [("ab",)],
    [time.gmtime(0), tuple(time.gmtime(0))],
    [frozenset()],
    [frozenset({1, 2}), frozenset({2.0, True}), Ids({1, 2})],
    [frozenset({nan(), 1}), frozenset({1.0, nan(), nan()})],
    [frozenset({(1, "a")}), frozenset({Pair(1, "a")})],
    [Colour.RED],
    [Colour.BLUE],
    [Other.RED],
    [Right.READ],
    [Right.READ | Right.WRITE],
    [Right(0)],
    [dt.date(2024, 2, 29), Day(2024, 2, 29)],
    [dt.datetime(2024, 2, 29), Moment(2024, 2, 29), pd.Timestamp("2024-02-29"), pd.Timestamp("2024-02-29").as_unit("s"),
     dt.datetime(2024, 2, 29, fold=1), np.datetime64("2024-02-29"), np.datetime64("2024-02-29T00:00:00", "ns"),
     np.datetime64("2024-02-29T00", "h")],
    [dt.datetime(2024, 2, 29, 0, 0, 0, 1), pd.Timestamp("2024-02-29T00:00:00.000001"),
     np.datetime64("2024-02-29T00:00:00.000001")],
    [pd.Timestamp("2024-02-29T00:00:00.000000001")],
    [pd.Timestamp("2024-02-29T00:00:00.000000002")],
    [np.datetime64("1970-02-28T00:00:00.000000003"), np.datetime64("1970-02-28T00:00:00.000000003000")],
    [np.datetime64("20000-01-01"), np.datetime64("20000-01-01T00:00:00")],
    [dt.datetime(1, 1, 1), np.datetime64("0001-01-01")],
    [dt.datetime(9999, 12, 31, 23, 59, 59, 999999), np.datetime64("9999-12-31T23:59:59.999999")],
    [dt.datetime(2024, 1, 1, 12, tzinfo=UTC), dt.datetime(2024, 1, 1, 13, tzinfo=HOUR),
     dt.datetime(2024, 1, 1, 7, tzinfo=NEW_YORK),
     dt.datetime(2024, 1, 1, 13, tzinfo=BERLIN), Moment(2024, 1, 1, 12, tzinfo=UTC), pd.Timestamp("2024-01-01T12:00Z"),
     pd.Timestamp("2024-01-01T07:00", tz="America/New_York")],
    [dt.datetime(2024, 1, 1, 12)],
    [dt.datetime(1601, 1, 1, 0, 0, 0, 1, tzinfo=UTC), dt.datetime(1601, 1, 1, 1, 0, 0, 1, tzinfo=HOUR)],
    [dt.datetime(1601, 1, 1, 0, 0, 0, 2, tzinfo=UTC)],
    [dt.datetime(2555, 1, 1, 0, 0, 0, 1, tzinfo=UTC)],
    [dt.datetime(2555, 1, 1, 0, 0, 0, 2, tzinfo=UTC)],
    [dt.datetime(1, 1, 1, tzinfo=HOUR)],
    [dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.timezone(dt.timedelta(hours=-3)))],
    [dt.datetime(2024, 11, 3, 1, 30, tzinfo=NEW_YORK), dt.datetime(2024, 11, 3, 1, 30, fold=1, tzinfo=NEW_YORK)],
    [dt.datetime(2024, 11, 3, 1, 30, 0, 1, tzinfo=NEW_YORK)],
    [dt.datetime(2024, 11, 3, 5, 30, tzinfo=UTC)],
    [dt.datetime(2024, 11, 3, 6, 30, tzinfo=UTC)],
    [dt.datetime(2024, 3, 10, 2, 30, tzinfo=NEW_YORK), dt.datetime(2024, 3, 10, 2, 30, fold=1, tzinfo=NEW_YORK)],
    [dt.datetime(2024, 3, 10, 3, 30, tzinfo=NEW_YORK), dt.datetime(2024, 3, 10, 7, 30, tzinfo=UTC)],
    [pd.Timestamp("2024-01-01T12:00:00.000000001Z"), pd.Timestamp("2024-01-01T13:00:00.000000001", tz=HOUR)],
    [pd.Timestamp("2024-01-01T12:00:00.000000002Z")],
    [dt.time(12), dt.time(12, fold=1), dt.time(12, tzinfo=NEW_YORK)],
    [dt.time(12, tzinfo=UTC), dt.time(13, tzinfo=HOUR)],
    [dt.time(0, 30, tzinfo=HOUR)],
    [dt.time(23, 30, tzinfo=UTC)],
    [dt.time(12, 0, 0, 1)],
    [dt.timedelta(0), np.timedelta64(0, "s"), pd.Timedelta(0)],
    [dt.timedelta(seconds=1), np.timedelta64(1, "s"), np.timedelta64(10**9, "ns"), pd.Timedelta("1s"),
     pd.Timedelta("1s").as_unit("s")],
    [dt.timedelta(seconds=-1)],
    [pd.Timedelta(1, "ns")],
    [pd.Timedelta(2, "ns")],
    [pd.Timedelta(10**9 + 1, "ns")],
    [np.timedelta64(3, "ns"), np.timedelta64(3000, "ps")],
    [pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT", "s")],
    [(pd.NaT, 1), (np.datetime64("NaT", "s"), 1)],
    [pd.NA],
    [pd.Period("2024-01", "M")],
    [pd.Period("2024-01-01", "D")],
    [pd.Interval(0, 1), pd.Interval(0.0, 1.0)],
    [pd.Interval(0, 1, "left")],
    [dt.timezone(dt.timedelta(hours=1)), HOUR],
    [UTC],
    [NEW_YORK],
    [uuid.UUID(int=5), uuid.UUID(int=5)],
    [uuid.UUID(int=6)],
    [str(uuid.UUID(int=5))],
    [pathlib.PurePosixPath("a/b"), pathlib.PosixPath("a/b"), pathlib.Path("a//b")],
    [pathlib.PurePosixPath("A/b")],
    [pathlib.PureWindowsPath("A/b"), pathlib.PureWindowsPath("a\\B")],
    ["a/b"],
    [ipaddress.ip_address("10.0.0.1")],
    [ipaddress.ip_interface("10.0.0.1")],
    [ipaddress.ip_interface("10.0.0.1/8")],
    [ipaddress.ip_network("10.0.0.1")],
    [ipaddress.ip_network("10.0.0.0/8")],
    [ipaddress.ip_address("::1"), ipaddress.ip_address("0::1")],
    [ipaddress.ip_address("fe80::1%eth0")],
    [ipaddress.ip_address("fe80::1%eth1")],
    [ipaddress.ip_address("::ffff:10.0.0.1")],
    [ipaddress.ip_interface("::1/64")],
    [ipaddress.ip_network("::/64")],
    [range(0), range(2, 1)],
    [range(0, 3, 2), range(0, 4, 2)],
    [range(0, 3)],
    [range(5, 6), range(5, 7, 3)],
    [re.compile("a")],
    [re.compile("a", re.IGNORECASE)],
    [int],
    [Point],
    [Point(1), Point(True, 0.0)],
    [Point(2), Point(2.0)],
    [Point(nan()), Point(Decimal("NaN"))],
    [Point(Point(nan()), ("a", nan())), Point(Point(np.float64("nan")), ("a", nan()))],
    [Derived(1)],
    [Twin(1)],
    [Slotted(1)],
    [Slotted(nan()), Slotted(nan())],
    [Noted(1), Noted(1, "noted")],
    [HalfHashed(1, 1)],
    [HalfHashed(1, 2)],
    [Owned(1), Owned(1.0)],
    [Owned(nan()), Owned(nan())],
    [Attributes(1), Attributes(True, "noted")],
    [Attributes(2)],
    [Attributes(nan()), Attributes(Decimal("NaN"))],
    [Attributes(Attributes(("a", nan()))), Attributes(Attributes(("a", nan()), 1))],
    [Attributes(Attributes(nan())), Attributes(Attributes(np.float32("nan")))],
    [Point(pd.NaT), Point(np.datetime64("NaT"))],
    [Row(1, 2), Row(True, 2.0)],
    [Row(a=1, b=2), Row(b=2, a=1)],
    [Row(nan(), 1), Row(Decimal("nan"), 1)],
    [Row(a=nan()), Row(a=nan())],
    [Row(a=1)],
    [Row("a", 1)],
]  # fmt: skip

EQUAL = [keys for keys in EQUAL if keys]
OWN = [[Folded("Ab"), Folded("aB")], [Folded("bA"), Folded("Ba")], [("x", Folded("q")), ("x", Folded("Q"))]]
"""Keys with a hash of their own."""
KEYS = [(number, key) for number, keys in enumerate(EQUAL) for key in keys]


class Caseless(str):
    def __eq__(self, other):
        return self.lower() == other.lower()

    def __hash__(self):
        return hash(self.lower())


@dataclasses.dataclass(frozen=True)
class Loose:  # noqa: PLW1641 - the decorator makes it
    x: Any

    def __eq__(self, other):
        return abs(self.x - other.x) < 1


@dataclasses.dataclass(eq=False)
class Alone:
    x: Any


def local_class():
    class Local:
        pass

    return Local


REFUSED = [
    object(),
    print,
    Alone(1),
    Loose(1),
    Lowered("A"),
    Caseless("A"),
    np.timedelta64(1, "M"),
    Decimal("sNaN"),
    local_class(),
]
