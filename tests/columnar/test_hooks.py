# ruff: noqa: F841, B023, B024, PLR0124, PLR1730, PLW0108, PLW0603, RUF034 - what programs write, not what they should
"""What classes decide themselves is left to them: hooks, descriptors, refused writes, shared objects, variables that change."""

import abc
import collections
import enum
import types
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    MapFunction,
    Row,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from funken.errors import JobExecutionError

NUMBERS = [0, 1, 2, 3]


def run(vectorized, make, *steps):
    """Return the results of steps, pairs of an operator and a function, or what the job fails with."""
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    stream = env.from_source(DataGeneratorSource(make, len(NUMBERS)), WatermarkStrategy.no_watermarks(), "records")
    for operator, function in steps:
        stream = getattr(stream, operator)(function)
    try:
        return [repr(each) for each in stream.execute_and_collect(limit=50)]
    except JobExecutionError as error:
        return str(error).splitlines()[0]


def agree(make, *steps):
    found = run(True, make, *steps)
    assert found == run(False, make, *steps)
    return found


# ---- isinstance


class ByValue(type):
    def __instancecheck__(cls, value):
        return value > 1


class Large(metaclass=ByValue):
    pass


class BySubclass(type):
    def __subclasscheck__(cls, other):
        return True


class Anything(metaclass=BySubclass):
    pass


@runtime_checkable
class HasX(Protocol):
    x: int


@runtime_checkable
class Sized(Protocol):
    def __len__(self) -> int: ...


class Registered(abc.ABC):
    pass


class Hooked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        return other is int


Registered.register(int)


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@pytest.mark.parametrize(
    "cls",
    [
        Large,
        Anything,
        HasX,
        Sized,
        Registered,
        Hooked,
        Color,
        Level,
        (int, Large),
        int | str,
        collections.abc.Hashable,
        object,
    ],
)
def test_instances(cls):
    agree(lambda n: n, ("map", lambda n: isinstance(n, cls)))
    agree(lambda n: (n, str(n)), ("map", lambda pair: isinstance(pair[1], cls) if cls is not Large else 0))


# ---- attributes of function objects and of other namespaces


class Percent:
    def __set_name__(self, owner, name):
        self.name = name

    def __set__(self, obj, value):
        obj.__dict__[self.name] = value

    def __get__(self, obj, owner=None):
        return self if obj is None else obj.__dict__[self.name] / 100


class NoData:
    def __get__(self, obj, owner=None):
        return 7


class ByDescriptor(MapFunction):
    rate = Percent()

    def __init__(self):
        self.rate = 50

    def map(self, n):
        return n * self.rate


class ByNonData(MapFunction):
    rate = NoData()

    def map(self, n):
        return n * self.rate


class ShadowsNonData(ByNonData):
    def __init__(self):
        self.__dict__["rate"] = 3


class ByProperty(MapFunction):
    def __init__(self):
        self.__dict__["rate"] = 3

    @property
    def rate(self):
        return 5

    def map(self, n):
        return n * self.rate


class ByGetattr(MapFunction):
    def __getattr__(self, name):
        if name == "rate":
            return 9
        raise AttributeError(name)

    def map(self, n):
        return n * self.rate


class ByGetattribute(MapFunction):
    rate = 2

    def __getattribute__(self, name):
        return 11 if name == "rate" else super().__getattribute__(name)

    def map(self, n):
        return n * self.rate


class BySlot(MapFunction):
    __slots__ = ("rate",)

    def __init__(self):
        self.rate = 4

    def map(self, n):
        return n * self.rate


class ByClass(MapFunction):
    rate = 6

    def map(self, n):
        return n * self.rate


class ByOwnDict(MapFunction):
    rate = 6
    __dict__ = property(lambda self: {"rate": 100})

    def map(self, n):
        return n * self.rate


class Computed(type):
    @property
    def rate(cls):
        return 13


class WithMeta(metaclass=Computed):
    pass


class Space:
    rate = NoData()
    plain = 8

    @classmethod
    def of(cls):
        return cls.plain


dynamic = types.ModuleType("dynamic")
dynamic.__getattr__ = lambda name: 19


@pytest.mark.parametrize(
    "function",
    [
        ByDescriptor(), ByNonData(), ShadowsNonData(), ByProperty(), ByGetattr(), ByGetattribute(), BySlot(), ByClass(),
        ByOwnDict(), lambda n: n * WithMeta.rate, lambda n: n * Space.rate, lambda n: n * Space.plain,
        lambda n: n * dynamic.rate,
    ],
)  # fmt: skip
def test_attributes(function):
    agree(lambda n: n, ("map", function))


# ---- constants with hooks


class Odd(int):
    def __add__(self, other):
        return -1

    __radd__ = __mul__ = __rmul__ = __add__

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1

    def __format__(self, spec):
        return "odd"

    def __bool__(self):
        return False

    def __index__(self):
        return 0


class Loud(str):
    __slots__ = ()

    def __str__(self):
        return "LOUD"

    def __contains__(self, part):
        return False

    def __add__(self, other):
        return "added"

    def __len__(self):
        return 99


class Filled(dict):
    def __missing__(self, key):
        return key * 100


class Everything(frozenset):
    def __contains__(self, value):
        return True


ODD, LOUD, FILLED, EVERYTHING = Odd(3), Loud("a"), Filled({1: 2}), Everything()
TABLE = {Odd(1): 5, Odd(2): 7}


def of_constant(value):
    return [
        lambda n: n + value,
        lambda n: value == n,
        lambda n: n if value else -1,
        lambda n: f"{value}{n}",
        lambda n: n in value,
        lambda n: value[n],
        lambda n: value.get(n, 3),
        lambda n: len(value) + n,
        lambda n: str(value) + str(n),
        lambda n: [10, 20, 30, 40][value],
        lambda n, given=value: (n, given),
        lambda n: max(n, value),
    ]


@pytest.mark.parametrize(
    "value", [ODD, LOUD, FILLED, EVERYTHING, Level.HIGH, Color.RED, collections.OrderedDict(a=1), TABLE]
)
def test_constants(value):
    for function in of_constant(value):
        agree(lambda n: n, ("map", function))


# ---- records with hooks


@dataclass
class Hooks:
    n: int
    text: str = "a"

    def __eq__(self, other):
        return True

    def __bool__(self):
        return self.n > 1

    def __len__(self):
        return 42

    def __iter__(self):
        return iter((self.n, 1))

    def __contains__(self, value):
        return True

    def __getitem__(self, item):
        return item

    def __format__(self, spec):
        return "formatted"

    def __str__(self):
        return "text"

    def __repr__(self):
        return f"Hooks {self.n}"

    def __lt__(self, other):
        return True

    def __hash__(self):
        return 1


class Pair(NamedTuple):
    n: int
    text: str = "a"

    def __bool__(self):
        return self[0] > 1

    def __str__(self):
        return "pair"

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1

    @property
    def double(self):
        return self.n * 2


@dataclass
class Plain:
    n: int
    text: str = "a"


@dataclass(frozen=True)
class Frozen:
    n: int
    text: str = "a"


@dataclass(slots=True)
class Slotted:
    n: int
    text: str = "a"


@dataclass
class Guarded:
    n: int
    text: str = "a"

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value if name == "text" else abs(value) + 1)


CLASSES = [Hooks, Pair, Plain, Frozen, Slotted, Guarded]
OF_RECORD: list[Any] = [
    lambda r: 1 if r else 0,
    lambda r: r == r,
    lambda r: f"{r}",
    lambda r: str(r),
    lambda r: repr(r),
    lambda r: len(r),
    lambda r: 1 in r,
    lambda r: r[0],
    lambda r: [each for each in r],
    lambda r: tuple(r),
    lambda r: isinstance(r, int),
    lambda r: r < r,
    lambda r: r.n + 1,
    lambda r: (r.n, *r),
    lambda r: not r,
    lambda r: r and r.n,
    lambda r: r.double,
    lambda r: type(r).__name__,
    lambda r: max(r, r).n,
    lambda r: {"of": r.n, "r": r},
]


@pytest.mark.parametrize("cls", CLASSES)
def test_records(cls):
    for function in OF_RECORD:
        agree(cls, ("map", function))
        agree(lambda n: {"r": cls(n), "n": n}, ("map", lambda record: function(record["r"])))


# ---- writes


def sets_item(r):
    r["seen"] = True
    return "set"


def sets_new(r):
    r.seen = True
    return "set"


def sets_field(r):
    r.n = 5
    return "set"


def sets_first(r):
    r[0] = 5
    return "set"


def deletes_item(r):
    del r["n"]
    return "deleted"


def deletes_field(r):
    del r.n
    return "deleted"


def updates(r):
    r.update(n=2)
    return "updated"


def pops(r):
    r.pop("n", None)
    return "popped"


def appends(r):
    r.append(1)
    return "appended"


def adds(r):
    r.n += 1
    return "added"


def in_place(r):
    r["n"] += 1
    return r["n"]


def catching(write):
    def function(r):
        try:
            return write(r)
        except (TypeError, AttributeError, KeyError) as error:
            return type(error).__name__

    return function


def sets_item_in_try(r):
    try:
        r["seen"] = True
    except TypeError:
        return "immutable"
    return "written"


def sets_field_in_try(r):
    try:
        r.n = 1
    except AttributeError:
        return "immutable"
    except TypeError:
        return "no"
    else:
        return "written"
    finally:
        r = None


def sets_field_if(r):
    if r.n > 1:
        r.n = 1
    return "ok"


WRITES = [
    sets_item, sets_new, sets_field, sets_first, deletes_item, deletes_field, updates, pops, appends, adds, in_place,
    sets_item_in_try, sets_field_in_try, sets_field_if,
]  # fmt: skip
MAKERS = [
    *CLASSES,
    lambda n: (n, 1),
    lambda n: {"n": n},
    lambda n: {"n": n, "m": 1},
    lambda n: Row(n=n, text="a"),
    lambda n: n,
    lambda n: "text",
    lambda n: [n],
]


@pytest.mark.parametrize("write", WRITES)
def test_writes(write):
    for make in MAKERS:
        agree(make, ("map", write))
        agree(make, ("map", catching(write)))


# ---- shared objects


def changes_first(record):
    first = record[0] if isinstance(record, tuple) else record
    if isinstance(first, list):
        first.append(99)
    elif isinstance(first, dict):
        first["n"] = -1
    return record


def twice(d):
    return [d, d]


def yields_twice(d):
    yield d
    yield d


def yields_in_loop(d):
    for _ in range(2):
        yield d


def yields_with_items(d):
    for item in d["items"]:
        yield d, item


def yields_made_before(d):
    made = {"n": d["n"]}
    for _ in d["items"]:
        yield made


def yields_either(d):
    if d["n"] > 1:
        yield d
    else:
        yield d


SHARING = [
    ("map", lambda d: (d, d)),
    ("map", lambda d: (d["in"], d)),
    ("map", lambda d: (d, d["in"])),
    ("map", lambda d: (d["items"], d)),
    ("map", lambda d: (d["items"], d["items"])),
    ("map", lambda d: (dict(d), d)),
    ("map", lambda d: ({**d}, d["in"])),
    ("map", lambda d: (d["items"][:], d["items"])),
    ("map", lambda d: ([d["in"]], [d["in"]])),
    ("map", lambda d: ((d, 1), (d, 2))),
    ("map", lambda d: {"old": d, "new": d}),
    ("map", lambda d: (d if d["n"] > 1 else d, 1)),
    ("map", lambda d: (d, d["n"])),
    ("map", lambda d: [d["in"] for _ in d["items"]]),
    ("map", lambda d: ([each for each in d["list"]], d["list"])),
    ("map", lambda d: (sorted(d["items"]), d["items"])),
    ("flat_map", twice),
    ("flat_map", yields_twice),
    ("flat_map", yields_in_loop),
    ("flat_map", yields_with_items),
    ("flat_map", yields_made_before),
    ("flat_map", yields_either),
    ("flat_map", lambda d: [d["in"], d]),
    ("flat_map", lambda d: d["list"]),
    ("flat_map", lambda d: [(each, d["n"]) for each in d["list"]]),
]


def changes_all(record):
    """Change everything that can be, and show what the rest became."""
    todo = [record]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            todo += each.values()
            each["changed"] = each.get("changed", 0) + 1
        elif isinstance(each, list):
            todo += each
            if len(each) < 5:  # a generator may go over it
                each.append(0)
        elif isinstance(each, tuple):
            todo += each
    return repr(record)


@pytest.mark.parametrize("number", range(len(SHARING)))
def test_shared_objects(number):
    def make(n):
        return {"n": n, "in": {"n": n}, "items": [n, 1], "list": [{"n": n}, {"n": 0}]}

    agree(make, SHARING[number], ("map", changes_all))
    agree(make, SHARING[number], ("map", changes_first))


def test_results_of_a_reduce_share_what_it_keeps():
    def make(n):
        return {"n": n, "in": {"n": n}}

    def results(vectorized):
        env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
        records = env.from_source(DataGeneratorSource(make, 6), WatermarkStrategy.no_watermarks(), "records")
        reduced = records.key_by(lambda record: record["n"] % 2).reduce(lambda a, b: {"n": b["n"], "in": a["in"]})
        return sorted(reduced.map(changes_all).execute_and_collect(limit=9))

    assert results(True) == results(False)


def test_what_shares_nothing_stays_on_columns():
    env = StreamExecutionEnvironment.create_local_environment(1)
    records = env.from_source(
        DataGeneratorSource(lambda n: {"n": n, "in": {"n": n}, "items": [n]}, 4),
        WatermarkStrategy.no_watermarks(),
        "records",
    )
    records.map(lambda d: {"a": d["in"], "b": {"n": 1}, "c": d["items"]}).name("fields").print()
    records.map(lambda d: d if d["n"] else {**d, "n": 5}).name("either").print()
    records.flat_map(yields_either).name("yields").print()
    plan = env.explain()

    assert "columns: fields: vectorized" in plan
    assert "columns: either: vectorized" in plan
    assert "columns: yields: vectorized" in plan


def test_large_collections_with_shared_objects():
    shared = {"n": 0}
    elements = [{"old": shared, "new": shared}] + [{"old": {"n": n}, "new": {"n": n}} for n in range(200_000)]

    def change(record):
        record["new"]["n"] = -1
        return record["old"]["n"]

    def first(vectorized):
        env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
        return env.from_collection(elements).map(change).execute_and_collect(limit=2)

    assert first(True) == first(False)


# ---- variables that another function of the program changes

RATE, TABLE_OF_RATES, KNOWN = 2, {"a": 1}, [1]


class Box:
    rate = 2


def reset():
    global RATE
    RATE, Box.rate = 2, 2
    TABLE_OF_RATES.clear()
    TABLE_OF_RATES.update(a=1)
    KNOWN[:] = [1]


def assigns(n):
    global RATE
    if n[0] == 1:
        RATE = 0
    return n


def calls_what_assigns(n):
    return assigns(n)


def sets_attribute(n):
    if n[0] == 1:
        Box.rate = 0
    return n


def sets_key(n):
    if n[0] == 1:
        TABLE_OF_RATES["a"] = 5
    return n


def adds_item(n):
    if n[0] == 1:
        KNOWN.append(3)
    return n


class Assigns(MapFunction):
    def map(self, n):
        return assigns(n)


def rate():
    return RATE


@pytest.mark.parametrize(
    ("uses", "changes"),
    [
        (lambda n: (n, n * RATE), assigns),
        (lambda n: (n, n * RATE), calls_what_assigns),
        (lambda n: (n, n * RATE), Assigns()),
        (lambda n: (n, n * rate()), assigns),
        (lambda n: (n, n * Box.rate), sets_attribute),
        (lambda n: (n, n * TABLE_OF_RATES["a"]), sets_key),
        (lambda n: (n, n * TABLE_OF_RATES.get("a", 0)), sets_key),
        (lambda n: (n, n in KNOWN), adds_item),
    ],
)
def test_a_variable_that_another_function_changes(uses, changes):
    reset()
    found = run(True, lambda n: n, ("map", uses), ("map", changes))
    reset()
    assert found == run(False, lambda n: n, ("map", uses), ("map", changes))


def test_a_variable_that_nobody_changes_is_read():
    def lists(n):
        items = {"a": 1}
        items["b"] = TABLE_OF_RATES["a"]
        return n, items["b"]

    env = StreamExecutionEnvironment.create_local_environment(1)
    numbers = env.from_source(DataGeneratorSource(lambda n: n, 4), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(lambda n: n * TABLE_OF_RATES["a"] + RATE).name("uses").map(lists).name("lists").print()

    assert "columns: uses: vectorized" in env.explain()
    assert "columns: lists: vectorized" in env.explain()


# ---- what is evaluated and dropped


def drops_a_list(n):
    unused = [n, 1 // n]
    return n


def drops_a_list_in_a_list(n):
    unused = [[n], ([1 // n], "a")]
    return n


def drops_an_unpacked_list(n):
    unused = [*n, 1]
    return 1


def drops_a_statement(n):
    [n[0], n]
    return n


def drops_a_set(n):
    {1 // n}
    return n


def drops_a_dict(n):
    unused = {"a": 1 // n}
    return n


def drops_one_of_two(n):
    unused = [1 // n] if n < 2 else [n]
    return n


def yields_nothing_of_it(n):
    unused = [n, 1 // n]
    yield n


@pytest.mark.parametrize(
    "function",
    [
        drops_a_list, drops_a_list_in_a_list, drops_an_unpacked_list, drops_a_statement, drops_a_set, drops_a_dict,
        drops_one_of_two,
    ],
)  # fmt: skip
def test_what_is_dropped_is_evaluated(function):
    assert "Error" in agree(lambda n: n, ("map", function))
    assert "Error" in agree(lambda n: n, ("flat_map", yields_nothing_of_it))
