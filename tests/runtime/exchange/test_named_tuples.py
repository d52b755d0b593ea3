"""Named tuples come out of a block as pickle would bring them: of the same class, made in the way their class asks for."""

import copyreg
import gc
import pickle
from collections import namedtuple
from typing import Generic, NamedTuple, TypeVar

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.runtime.exchange.gate import (
    FEWEST,
    BlockKind,
    decode_records,
    encode_records,
    fields_of,
    is_simple_namedtuple,
    pack_header,
)

T = TypeVar("T")


class Plain(NamedTuple):
    first: object
    second: object = None

    def both(self):
        return self.first, self.second


class Shared(NamedTuple, Generic[T]):
    first: T
    second: object


Made = namedtuple("Made", ["first", "class", "def"], rename=True)
Empty = namedtuple("Empty", "")


class Slotted(namedtuple("Slotted", "first second")):
    __slots__ = ()


class WithDict(namedtuple("WithDict", "first second")):
    def __new__(cls, first, second):
        made = super().__new__(cls, first, second)
        made.note = [first]
        return made


class Attributed(namedtuple("Attributed", "first second")):
    """Without a way of its own to be made, but with room for attributes."""


class Swapped(namedtuple("Swapped", "first second")):
    """Makes something else of its arguments each time."""

    __slots__ = ()

    def __new__(cls, first, second):
        return super().__new__(cls, second, first)


class Reduced(NamedTuple):
    first: object
    second: object

    def __reduce__(self):
        return Reduced, ("reduced", self.second)


class ReducedEx(NamedTuple):
    first: object
    second: object

    def __reduce_ex__(self, protocol):
        return ReducedEx, (protocol, self.second)


class Stated(namedtuple("Stated", "first second")):
    __slots__ = ()

    def __getstate__(self):
        return "state"

    def __setstate__(self, state):
        assert state == "state"
        Stated.restored += 1


class Argued(namedtuple("Argued", "first second")):
    __slots__ = ()

    def __getnewargs__(self):
        return ("argued", self[1])


class ArguedEx(namedtuple("ArguedEx", "first second")):
    __slots__ = ()

    def __getnewargs_ex__(self):
        return (), {"first": "named", "second": self[1]}


class Iterated(namedtuple("Iterated", "first second")):
    __slots__ = ()

    def __iter__(self):
        return iter(("iterated", self[1]))


class Answering(namedtuple("Answering", "first second")):
    __slots__ = ()

    def __getattr__(self, name):
        if name == "__getnewargs_ex__":
            return lambda: (("answered", self[1]), {})
        raise AttributeError(name)


class Plainer(tuple):
    """A tuple without names."""

    __slots__ = ()


PLAIN = [Plain, Shared, Made, Slotted]
OTHERS = [
    WithDict,
    Attributed,
    Swapped,
    Reduced,
    ReducedEx,
    Stated,
    Argued,
    ArguedEx,
    Iterated,
    Answering,
    Plainer,
    Empty,
]
Stated.restored = 0


def arrived(values):
    return decode_records(
        pack_header(BlockKind.DATA, 0, 0, 0, 0, 0, 0.0, encode_records(values, None, "op", 0))
    ).rows()[0]


def seen(value):
    """A record with its class, and what it may have beside its fields, all the way down."""
    inside = [seen(each) for each in tuple.__iter__(value)] if isinstance(value, tuple) else value
    return type(value), inside, getattr(value, "__dict__", None)


def test_which_classes_are_taken_apart():
    assert [cls for cls in [*PLAIN, *OTHERS] if is_simple_namedtuple(cls)] == PLAIN


FIELDS = st.integers() | st.text(max_size=3) | st.none() | st.floats(allow_nan=False)


@st.composite
def records(draw, classes):
    cls = draw(st.sampled_from(classes))
    if cls is Plainer:
        return Plainer(draw(st.lists(FIELDS, max_size=3)))
    fields = [draw(FIELDS | records(classes)) if draw(st.integers(0, 9)) == 0 else draw(FIELDS) for _ in cls._fields]
    return cls(*fields)


@settings(max_examples=40)
@given(st.data())
def test_what_arrives_is_what_pickle_brings(data):
    classes = data.draw(st.lists(st.sampled_from([*PLAIN, *OTHERS]), min_size=1, max_size=2))
    few = data.draw(st.lists(records(classes), min_size=1, max_size=3))
    values = (few * FEWEST)[: FEWEST + data.draw(st.integers(-1, 4))]
    stamps = data.draw(st.none() | st.just(list(range(len(values)))))

    block = pack_header(BlockKind.DATA, 0, 0, 0, 0, 0, 0.0, encode_records(values, stamps, "op", 0))
    found, found_stamps = decode_records(block).rows()

    assert list(map(seen, found)) == list(map(seen, pickle.loads(pickle.dumps(values, 5))))
    assert found_stamps == stamps


@pytest.mark.parametrize("cls", PLAIN, ids=lambda cls: cls.__name__)
def test_a_block_of_one_plain_class_is_taken_apart(cls):
    values = [cls(*range(n, n + len(cls._fields))) for n in range(FEWEST)]

    assert fields_of(values) == list(zip(*values, strict=True))
    assert fields_of(values[1:]) is None, "too few"
    assert fields_of([*values, tuple(values[0])]) is None
    assert list(map(seen, arrived(values))) == list(map(seen, values))
    assert type(arrived(values)[0].first) is int


def test_a_state_of_its_own_is_restored():
    before = Stated.restored
    arrived([Stated(1, 2)] * 1 + [Stated(n, n) for n in range(FEWEST)])
    assert Stated.restored == before + FEWEST + 1


def test_records_of_another_length_than_their_class_keep_it():
    def short():
        return [*(Slotted(n, n) for n in range(FEWEST)), tuple.__new__(Slotted, (1,))]

    assert fields_of(short()) is None
    with pytest.raises(TypeError, match="second"):  # as pickle does: the class is called without its second field
        arrived(short())


def test_a_class_that_changes_its_mind_is_asked_again(monkeypatch):
    values = [Plain(n) for n in range(FEWEST)]
    assert fields_of(values) is not None

    monkeypatch.setitem(copyreg.dispatch_table, Plain, lambda record: (Plain, ("registered", record.second)))
    assert {record.first for record in arrived(values)} == {"registered"}
    monkeypatch.undo()

    monkeypatch.setattr(Plain, "__reduce__", lambda record: (Plain, ("patched",)), raising=False)
    assert {record.first for record in arrived(values)} == {"patched"}


def test_what_records_share_they_still_share():
    first = [1]
    found = arrived([Plain(first, n) for n in range(FEWEST)])
    found[0].first.append(2)
    assert found[-1].first == [1, 2]


def test_a_class_that_only_this_function_knows_travels():
    class Local(NamedTuple):
        number: int

    found = arrived([Local(n) for n in range(FEWEST)])
    assert found == [Local(n) for n in range(FEWEST)]
    assert {type(record) for record in found} == {Local}


def test_a_class_that_came_with_the_program_is_as_plain_as_it_was_at_home():
    def carried():
        class Away(NamedTuple):
            number: int

        return cloudpickle.dumps(Away)

    blob = carried()
    gc.collect()  # or the class that is still here would be found, not made anew
    away = cloudpickle.loads(blob)

    assert is_simple_namedtuple(away)
    assert {type(record) for record in arrived([away(n) for n in range(FEWEST)])} == {away}
