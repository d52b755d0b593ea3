"""``funken.dataclass`` against the standard library's: the same classes with both."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import pickle
from dataclasses import field

import pytest

from funken.dataclass import complete, dataclass

OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq, "repr": shown, "kw_only": kw_only}
    for frozen, slots, eq, shown, kw_only in itertools.product([False, True], repeat=5)
]


def both(make, **options):
    """The class that ``make`` decorates, with the standard library and with Funken's decorator."""
    return make(dataclasses.dataclass(**options)), make(dataclass(**options))


def plain(decorate):
    @decorate
    class Made:
        a: int
        b: str = "b"
        c: list = field(default_factory=list)
        d: int = field(default=4, repr=False, compare=False)
        e: int = field(default=5, hash=False)
        f: int = field(default=6, init=False)
        g: list = field(default_factory=lambda: [7], init=False)
        h: int = field(default=8, kw_only=True)

    return Made


def empty(decorate):
    @decorate
    class Made:
        pass

    return Made


def with_methods(decorate):
    @decorate
    class Made:  # noqa: PLW1641
        """Says so."""

        a: int = 1
        b: list = field(init=False)

        def __post_init__(self):
            object.__setattr__(self, "b", [self.a])

        def __eq__(self, other):
            return True

        def __repr__(self):
            return "mine"

    return Made


def hashed(decorate):
    @decorate
    class Made:
        a: int = 1

        def __hash__(self):
            return 17

    return Made


def derived(decorate):
    @decorate
    class Base:
        a: int
        b: int = 2

    @decorate
    class Made(Base):
        b: int = 3
        c: int = 4

    return Made


def outcome(function, *arguments, **named):
    try:
        found = function(*arguments, **named)
    except (AttributeError, TypeError) as error:
        return type(error), str(error) if isinstance(error, dataclasses.FrozenInstanceError) else ""
    return found


def told(cls):
    """What can be seen of a class and its objects."""
    objects = [made for made in (outcome(cls), outcome(cls, 1), outcome(cls, a=1), outcome(cls, 1, "x")) if made]
    made = [item for item in objects if isinstance(item, cls)]
    yield [item if isinstance(item, tuple) else "made" for item in objects]
    yield [repr(item) if "__repr__" in cls.__dict__ else "" for item in made]
    yield [[outcome(lambda x, y: x == y, x, y) for x in made] if "__eq__" in cls.__dict__ else "" for y in made]
    yield [item if isinstance(item, tuple) else "hashed" for item in (outcome(hash, x) for x in made)]
    yield cls.__hash__ is None
    yield [outcome(setattr, item, "a", 1) for item in made if hasattr(item, "a")]
    yield [outcome(delattr, item, "a") for item in made if hasattr(item, "a")]
    # Of a frozen class with slots the standard library says TypeError here, by an oversight.
    yield [isinstance(outcome(setattr, item, "other", 1), tuple) for item in made]
    yield [(f.name, f.type, f.default, f.repr, f.compare, f.init, f.kw_only) for f in dataclasses.fields(cls)]
    yield [str(name) for name in inspect.signature(cls).parameters.values()]
    yield getattr(cls, "__slots__", None), cls.__match_args__, cls.__doc__ == "Says so.", cls.__init__.__qualname__
    yield cls.__dataclass_params__.frozen


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(name for name in options if options[name]))
@pytest.mark.parametrize("make", [plain, empty, with_methods, hashed, derived])
def test_a_class_is_what_the_standard_library_makes(make, options):
    standard, ours = both(make, **options)

    assert list(told(ours)) == list(told(standard))


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class StandardPoint:
    x: int
    y: int = 0


def test_hashes_are_those_of_the_standard_library():
    assert hash(Point(1, 2)) == hash(StandardPoint(1, 2))


def test_a_frozen_object_with_slots_is_pickled_as_the_standard_library_does():
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)
    assert Point(1, 2).__getstate__() == StandardPoint(1, 2).__getstate__() == [1, 2]


def test_an_object_in_itself_has_a_representation():
    @dataclass
    class Ring:
        next: object = None

    ring = Ring()
    ring.next = ring

    assert repr(ring).endswith("Ring(next=...)")


def test_the_standard_library_derives_from_a_class_of_ours():
    @dataclasses.dataclass(frozen=True)
    class Derived(Point):
        z: int = 3

    assert repr(Derived(1)).endswith("Derived(x=1, y=0, z=3)")
    assert dataclasses.replace(Derived(1), x=2) == Derived(2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Derived(1).x = 2


def test_a_plain_subclass_of_a_frozen_class_has_attributes_of_its_own():
    @dataclass(frozen=True)
    class Base:
        x: int

    class Plain(Base):
        pass

    item = Plain(1)
    item.other = 2

    @dataclass(frozen=True)
    class Again(Plain):
        y: int = 2

    assert item.other == 2
    assert Again(1) == Again(1, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        item.x = 2


def test_a_class_that_can_change_does_not_derive_from_a_frozen_one():
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):

        @dataclass
        class Derived(Point):
            z: int = 3


def test_what_is_left_of_a_class_can_be_made_at_once():
    @dataclass
    class Pair:
        one: int
        other: int = 2

    assert not inspect.isfunction(vars(Pair)["__init__"])
    complete()
    assert inspect.isfunction(vars(Pair)["__init__"])
    assert vars(Pair)["__match_args__"] == ("one", "other")
    assert Pair(1) == Pair(1, 2)
