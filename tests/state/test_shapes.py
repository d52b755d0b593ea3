"""Classes in state that have other fields than when it was saved: by form before and after, and by the place in the state."""

from __future__ import annotations

import pickle
import sys
import types
from typing import Any

import pytest

from funken.checkpoint.store.blobs import Change, encode_frames, fold, keyed_part, state_pickler
from funken.errors import CheckpointIncompatible
from funken.io.shapes import NAMED, ClassChanged, Shape, StateDumper, dumps_state, load_state
from funken.state.keygroups import key_group_of

MODULE = "classes_in_state"
HEAD = """
import collections, dataclasses, enum, typing
from dataclasses import dataclass, field, InitVar
import attr
from funken import dataclass as quick
"""

FORMS = {
    "plain": "@dataclass\nclass C:\n{}", "frozen": "@dataclass(frozen=True)\nclass C:\n{}",
    "slots": "@dataclass(slots=True)\nclass C:\n{}", "frozen slots": "@dataclass(frozen=True, slots=True)\nclass C:\n{}",
    "kw_only": "@dataclass(kw_only=True)\nclass C:\n{}",
    "kw_only frozen slots": "@dataclass(kw_only=True, frozen=True, slots=True)\nclass C:\n{}",
    "quick": "@quick.dataclass\nclass C:\n{}", "quick frozen slots": "@quick.dataclass(frozen=True, slots=True)\nclass C:\n{}",
    "named tuple": "class C(typing.NamedTuple):\n{}", "attrs": "@attr.s(auto_attribs=True)\nclass C:\n{}",
    "attrs slots": "@attr.s(auto_attribs=True, slots=True)\nclass C:\n{}",
    "attrs frozen slots": "@attr.s(auto_attribs=True, frozen=True, slots=True)\nclass C:\n{}",
}  # fmt: skip
TUPLES = {"named tuple"}


def define(code: str) -> Any:
    """Make the module of the classes anew."""
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    exec(HEAD + code, vars(module))
    return module


@pytest.fixture(autouse=True)
def _no_module():
    yield
    sys.modules.pop(MODULE, None)


def with_fields(form: str, *fields: str) -> str:
    return FORMS[form].format("".join(f"    {field}\n" for field in fields) or "    pass\n")


def saved(value: Any, one_by_one: bool) -> bytes:
    return StateDumper(lambda shape: None)(value) if one_by_one else dumps_state([value], lambda shape: None)


def restored(data: bytes, one_by_one: bool) -> Any:
    found = load_state(data)
    return found if one_by_one else found[0]


ROWS = pytest.mark.parametrize("one_by_one", [False, True])


def values_of(thing: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


@ROWS
@pytest.mark.parametrize("after", FORMS)
@pytest.mark.parametrize("before", FORMS)
def test_fields_are_found_by_name_whatever_the_form(before, after, one_by_one):
    data = saved(define(with_fields(before, "a: int", "b: str", "c: float")).C(a=1, b="x", c=2.5), one_by_one)
    again = define(with_fields(after, "c: float", "b: str", "a: int"))
    if after in TUPLES and before not in TUPLES:
        with pytest.raises(ClassChanged, match="it is a named tuple now and was none"):
            restored(data, one_by_one)
        return
    thing = restored(data, one_by_one)
    assert type(thing) is again.C
    assert values_of(thing, "a", "b", "c") == {"a": 1, "b": "x", "c": 2.5}
    assert values_of(restored(saved(thing, one_by_one), one_by_one), "a", "b", "c") == {"a": 1, "b": "x", "c": 2.5}


@ROWS
@pytest.mark.parametrize("form", FORMS)
def test_a_new_field_has_its_default(form, one_by_one):
    data = saved(define(with_fields(form, "a: int", "b: str")).C(a=1, b="x"), one_by_one)
    again = define(with_fields(form, "a: int", "b: str", "c: int = 7"))
    thing = restored(data, one_by_one)
    assert type(thing) is again.C
    assert values_of(thing, "a", "b", "c") == {"a": 1, "b": "x", "c": 7}
    assert repr(thing) == "C(a=1, b='x', c=7)"


@ROWS
@pytest.mark.parametrize("form", [form for form in FORMS if form not in TUPLES])
def test_a_new_field_with_a_factory_has_an_object_of_its_own(form, one_by_one):
    dumps = StateDumper(lambda shape: None)
    C = define(with_fields(form, "a: int")).C
    data = [dumps(C(a=1)), dumps(C(a=2))] if one_by_one else dumps_state([C(a=1), C(a=2)], lambda shape: None)
    factory = "attr.Factory(list)" if "attrs" in form else "field(default_factory=list)"
    define(with_fields(form, "a: int", f"c: list = {factory}"))
    one, other = map(load_state, data) if one_by_one else load_state(data)
    assert (one.a, one.c, other.a, other.c) == (1, [], 2, [])
    assert one.c is not other.c


@ROWS
@pytest.mark.parametrize("form", FORMS)
def test_a_new_field_without_a_default_is_refused(form, one_by_one):
    data = saved(define(with_fields(form, "a: int")).C(a=1), one_by_one)
    define(with_fields(form, "a: int", "b: str"))
    with pytest.raises(
        ClassChanged, match=r"_state.C has changed .*: the field 'b' is new and has no default.*fields a, and"
    ):
        restored(data, one_by_one)


@ROWS
@pytest.mark.parametrize("form", FORMS)
def test_a_field_that_is_gone_is_dropped_with_a_warning(form, one_by_one, caplog):
    data = saved(define(with_fields(form, "a: int", "b: str", "c: int")).C(a=1, b="x", c=3), one_by_one)
    again = define(with_fields(form, "a: int", "c: int"))
    thing = restored(data, one_by_one)
    assert (type(thing), thing.a, thing.c, hasattr(thing, "b")) == (again.C, 1, 3, False)
    assert "was saved with 'b', which it has no more: dropped" in caplog.text


@ROWS
@pytest.mark.parametrize("form", [form for form in FORMS if form not in TUPLES and "attrs" not in form])
def test_a_renamed_field_says_what_it_was(form, one_by_one):
    data = saved(define(with_fields(form, "a: int", "b: str")).C(a=1, b="x"), one_by_one)
    define(with_fields(form, "text: str = field(metadata={'was': 'b'})", "a: int"))
    thing = restored(data, one_by_one)
    assert values_of(thing, "a", "text") == {"a": 1, "text": "x"}


@ROWS
@pytest.mark.parametrize("form", FORMS)
def test_the_same_class_is_read_as_ever(form, one_by_one):
    define(code := with_fields(form, "a: int", "b: dict"))
    data = saved(sys.modules[MODULE].C(a=1, b={"x": 2}), one_by_one)
    thing = restored(data, one_by_one)
    assert (type(thing) is sys.modules[MODULE].C, thing.a, thing.b) == (True, 1, {"x": 2})
    again = define(code)  # the class is made anew, as in another process
    assert type(restored(data, one_by_one)) is again.C


PAIRS = {
    "inherited fields": (
        "@dataclass\nclass B:\n    a: int\n@dataclass\nclass C(B):\n    b: int", "C(a=1, b=2)",
        "@dataclass\nclass B:\n    z: int = 9\n    a: int = 0\n@dataclass\nclass C(B):\n    b: int = 0", "C(z=9, a=1, b=2)",
    ),
    "inherited frozen slots": (
        "@dataclass(frozen=True, slots=True)\nclass B:\n    a: int\n@dataclass(frozen=True, slots=True)\nclass C(B):\n    b: int",
        "C(a=1, b=2)",
        "@dataclass(frozen=True, slots=True)\nclass C:\n    b: int\n    a: int", "C(b=2, a=1)",
    ),
    "an InitVar is no field": (
        "@dataclass(frozen=True, slots=True)\nclass C:\n    a: int\n    n: InitVar[int]\n    b: int = 0\n"
        "    def __post_init__(self, n): object.__setattr__(self, 'b', n)", "C(a=1, n=2)",
        "@dataclass(frozen=True, slots=True)\nclass C:\n    b: int\n    a: int", "C(b=2, a=1)",
    ),
    "a field that is not an argument": (
        "@dataclass(frozen=True, slots=True)\nclass C:\n    a: int\n    b: int = field(init=False, default=5)", "C(a=1)",
        "@dataclass(frozen=True, slots=True)\nclass C:\n    b: int\n    a: int", "C(b=5, a=1)",
    ),
    "collections.namedtuple": (
        "C = collections.namedtuple('C', ['a', 'b'])", "C(1, 2)", "C = collections.namedtuple('C', ['b', 'a'])", "C(b=2, a=1)",
    ),
    "a named tuple with a field between": (
        "class C(typing.NamedTuple):\n    a: int\n    b: int", "C(1, 2)",
        "class C(typing.NamedTuple):\n    a: int\n    x: int = 7\n    b: int = 0", "C(a=1, x=7, b=2)",
    ),
    "a subclass of a named tuple": (
        "class C(collections.namedtuple('C', ['a', 'b'])):\n    pass", "C(1, 2)",
        "class C(collections.namedtuple('C', ['b', 'a'])):\n    pass", "C(b=2, a=1)",
    ),
    "no fields before": ("@dataclass\nclass C:\n    pass", "C()", "@dataclass\nclass C:\n    a: int = 3", "C(a=3)"),
    "no fields before, with slots": (
        "@dataclass(slots=True)\nclass C:\n    pass", "C()", "@dataclass(slots=True)\nclass C:\n    a: int = 3", "C(a=3)",
    ),
    "init subclass hooks stay out": (
        "@dataclass\nclass C:\n    a: int\n    def __init_subclass__(cls, must): pass", "C(1)",
        "@dataclass\nclass C:\n    a: int\n    b: int = 2\n    def __init_subclass__(cls, must): raise ValueError", "C(a=1, b=2)",
    ),
    "an abstract base": (
        "import abc\n@dataclass\nclass C(abc.ABC):\n    a: int", "C(1)",
        "import abc\n@dataclass\nclass C(abc.ABC):\n    a: int\n    b: int = 2", "C(a=1, b=2)",
    ),
    "a generic class": (
        "T = typing.TypeVar('T')\n@dataclass\nclass C(typing.Generic[T]):\n    a: T", "C(1)",
        "T = typing.TypeVar('T')\n@dataclass\nclass C(typing.Generic[T]):\n    b: int = 2\n    a: T = 0", "C(b=2, a=1)",
    ),
    "its own __setstate__": (
        "@dataclass\nclass C:\n    a: int", "C(1)",
        "@dataclass\nclass C:\n    a: int\n    b: int\n    def __setstate__(self, s): self.__dict__.update(s, b=s['a'] + 1)",
        "C(a=1, b=2)",
    ),
    "its own __setstate__ after frozen slots": (
        "@dataclass(frozen=True, slots=True)\nclass C:\n    a: int\n    b: int", "C(1, 2)",
        "@dataclass\nclass C:\n    n: int\n    def __setstate__(self, s): self.n = s['a'] + s['b']", "C(n=3)",
    ),
    "its own __getstate__ and __setstate__": (
        "@dataclass\nclass C:\n    a: int\n    def __getstate__(self): return (self.a,)\n"
        "    def __setstate__(self, s): self.a = s[0]", "C(1)",
        "@dataclass\nclass C:\n    b: int\n    a: int\n    def __getstate__(self): return (self.a,)\n"
        "    def __setstate__(self, s): self.a, self.b = s[0], 5", "C(b=5, a=1)",
    ),
    "its own __reduce__": (
        "@dataclass\nclass C:\n    a: int\n    def __reduce__(self): return C, (self.a,)", "C(1)",
        "@dataclass\nclass C:\n    a: int\n    b: int = 2\n    def __reduce__(self): return C, (self.a,)", "C(a=1, b=2)",
    ),
    "a plain class": (
        "class C:\n    def __init__(self): self.a = 1\n    def __repr__(self): return f'C({vars(self)})'", "C()",
        "class C:\n    b = 3\n    def __repr__(self): return f'C({vars(self)})'", "C({'a': 1})",
    ),
    "an attribute that is no field": (
        "@dataclass\nclass C:\n    a: int\n    def __post_init__(self): self.memo = [self.a]\n", "C(1)",
        "@dataclass\nclass C:\n    a: int\n    b: int = 2\n    def __repr__(self): return f'{vars(self)}'",
        "{'a': 1, 'b': 2, 'memo': [1]}",
    ),
    "dataclass to plain class": (
        "@dataclass(frozen=True, slots=True)\nclass C:\n    a: int\n    b: int", "C(1, 2)",
        "class C:\n    def __repr__(self): return f'{vars(self)}'", "{'a': 1, 'b': 2}",
    ),
    "slots that are removed": (
        "class C:\n    __slots__ = ('a', 'b')\n    def __init__(self): self.a, self.b = 1, 2", "C()",
        "class C:\n    __slots__ = ('b',)\n    def __repr__(self): return f'C({self.b})'", "C(2)",
    ),
    "an enum whose values are exchanged": (
        "class C(enum.Enum):\n    A = 1\n    B = 2", "C.A", "class C(enum.Enum):\n    A = 2\n    B = 1", "<C.A: 2>",
    ),
    "an enum with another name for a value": (
        "class C(enum.Enum):\n    A = 1", "C.A", "class C(enum.Enum):\n    FIRST = 1", "<C.FIRST: 1>",
    ),
    "a text enum": (
        "class C(str, enum.Enum):\n    A = 'a'", "C.A", "class C(str, enum.Enum):\n    A = 'aa'", "<C.A: 'aa'>",
    ),
    "flags": (
        "class C(enum.Flag):\n    A = 1\n    B = 2", "C.A | C.B", "class C(enum.Flag):\n    A = 1\n    B = 2\n    D = 4",
        "<C.A|B: 3>",
    ),
    "a class within another": (
        "class O:\n    @dataclass(frozen=True, slots=True)\n    class C:\n        a: int\n        b: int\nC = O.C", "C(1, 2)",
        "class O:\n    @dataclass(frozen=True, slots=True)\n    class C:\n        b: int\n        a: int\nC = O.C",
        "O.C(b=2, a=1)",
    ),
}  # fmt: skip


@ROWS
@pytest.mark.parametrize("case", PAIRS)
def test_what_becomes_of_an_object(case, one_by_one):
    before, made, after, shown = PAIRS[case]
    module = define(before)
    data = saved(eval(made, vars(module)), one_by_one)
    define(after)
    assert repr(restored(data, one_by_one)) == shown


REFUSED = {
    "slots that are new": (
        "class C:\n    __slots__ = ('a',)\n    def __init__(self): self.a = 1", "C()", "class C:\n    __slots__ = ('a', 'b')",
        "the field 'b' is new and has no default",
    ),
    "a named tuple that is a plain class now": (
        "class C(typing.NamedTuple):\n    a: int", "C(1)", "class C:\n    pass", "was a named tuple and is none any more",
    ),
    "a class that is a function now": ("@dataclass\nclass C:\n    a: int", "C(1)", "def C(a): pass", "was a class and is"),
    "a member that is gone": (
        "class C(enum.Enum):\n    A = 1", "C.A", "class C(enum.Enum):\n    B = 2",
        "neither the member 'A' that was saved nor one",
    ),
}  # fmt: skip


@ROWS
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_told_is_refused(case, one_by_one):
    before, made, after, fact = REFUSED[case]
    module = define(before)
    data = saved(eval(made, vars(module)), one_by_one)
    define(after)
    with pytest.raises(ClassChanged, match=fact):
        restored(data, one_by_one)


def test_shapes_are_met_once_and_plain_values_have_none():
    met: list[Shape] = []
    C = define(with_fields("plain", "a: int")).C
    assert dumps_state([C(1), C(2)], met.append)[:1] == b"S"
    assert met == [Shape(MODULE, "C", NAMED, ("a",))]
    dumps = StateDumper(met.append)
    assert [dumps(value)[:1] for value in (1, "a", [C(1)], {"x": C(2)})] == [b"\x80", b"\x80", b"S", b"S"]
    assert len(met) == 2


def test_objects_within_objects_and_many_classes():
    code = "@dataclass(frozen=True, slots=True)\nclass D:\n    {}: int\n    {}: object\n"
    module = define((code + with_fields("named tuple", "x: int", "y: int")).format("a", "b"))
    data = dumps_state({"k": [module.D(1, module.C(2, module.D(3, None)))]}, lambda shape: None)
    define(
        "@dataclass(frozen=True, slots=True)\nclass D:\n    b: object\n    a: int\n"
        + with_fields("named tuple", "y: int", "x: int")
    )
    assert repr(load_state(data)) == "{'k': [D(b=C(y=D(b=None, a=3), x=2), a=1)]}"


def test_a_class_that_cannot_be_found_by_name_is_pickled_as_ever():
    import dataclasses

    @dataclasses.dataclass
    class Local:
        a: int

    met: list[Shape] = []
    with pytest.raises(AttributeError, match="local object"):
        dumps_state(Local(1), met.append)
    assert not met


def test_a_key_of_a_class_that_has_changed_is_refused():
    C = define(with_fields("frozen slots", "a: int", "b: str")).C
    keys = [C(n, "x") for n in range(5)]
    groups = {key_group_of(key, 128): key for key in keys}
    dumps = state_pickler("op", 0)
    data = {group: encode_frames("state/n", Change(True, [(key, None, 5)], ()), dumps) for group, key in groups.items()}
    for group, frames in data.items():
        assert keyed_part(group, fold([frames]), 128, {}).keyed.groups[group]["n"] == [(groups[group], None, 5)]
    define(with_fields("frozen slots", "a: int", "b: str", "c: int = 7"))
    with pytest.raises(
        CheckpointIncompatible, match="'n': a key is of a class that has changed, so it is another key now"
    ):
        for group, frames in data.items():
            keyed_part(group, fold([frames]), 128, {})


def test_state_without_shapes_is_read_as_ever():
    module = define(with_fields("frozen slots", "a: int", "b: str"))
    values = [module.C(1, "x"), {"k": [1.5, None]}]
    assert load_state(pickle.dumps(values, 5)) == values
    with pytest.raises(CheckpointIncompatible, match="op: state was saved as an object that cannot be made again"):
        fold([pickle.dumps(("state/n", True, values, ()), 5)[:-5]], "op")
