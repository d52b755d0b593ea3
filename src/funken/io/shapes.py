"""Shapes of classes in state: the fields of a class in a snapshot, and its objects after a change of the class.

Python's pickle saves the values of a frozen dataclass with slots, and of a named tuple, in their order; those of other
dataclasses by name, but it adds no field that is new. So ``dumps_state`` puts before a pickle the *shapes* of its classes:
the names of their fields. Reading finds the class of today. If the shape is the same, objects are made as ever; else they are
made by name: a new field gets its default, a field that is gone is left out, and what cannot be told is refused
(``ClassChanged``). Classes that say themselves how they are pickled are left alone, and so is state without shapes.

Members of an ``Enum`` are saved by name, with their value.
"""

from __future__ import annotations

import copyreg
import dataclasses
import enum
import functools
import importlib
import io
import json
import logging
import operator
import pickle
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, ClassVar, NamedTuple, Protocol

import cloudpickle

from funken import dataclass as quick
from funken.errors import CheckpointIncompatible, RecordNotPicklable
from funken.io.former_modules import load, loads, module_now

logger = logging.getLogger(__name__)

PROTOCOL = 5
NAMED, SLOTTED, ATTRS, LISTED, TUPLE = "named", "slotted", "attrs", "listed", "tuple"
"""The forms: state by name (as attributes, in slots, or as attrs has it), as a list in the order of the fields, and a tuple."""

_BY_NAME = {NAMED, SLOTTED, ATTRS}

_LISTING = {dataclasses._dataclass_getstate, quick._state}  # type: ignore[attr-defined]
_MARK = b"S"
"""The first byte of a pickle with shapes, where another begins with 0x80."""
_CLASS = pickle.STACK_GLOBAL
_ADAPTED: set[type] = set()
_set = object.__setattr__


class ClassChanged(CheckpointIncompatible):
    """A class in state has changed in a way that does not define the fate of its objects."""


class Shape(NamedTuple):
    """A class as it was saved.

    >>> Shape("shop", "Order", "named", ("id", "price")).label
    'shop.Order'
    """

    module: str
    name: str
    form: str
    fields: tuple[str, ...]

    @property
    def label(self) -> str:
        """The full name of the class."""
        return f"{self.module}.{self.name}"


_NEW_ARGUMENTS = vars(Shape)["__getnewargs__"].__code__


class ClassFields(NamedTuple):
    """The form of a class, its fields, the makers of those that may be missing, and their former names."""

    form: str
    names: tuple[str, ...]
    defaults: dict[str, Callable[[], Any]]
    former: dict[str, tuple[str, ...]]


# ---- what a class is


def fields_of(cls: Any) -> ClassFields | None:
    """Return the form and fields of a class; None if it has none, or says itself how it is pickled.

    >>> @dataclasses.dataclass(frozen=True, slots=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> fields_of(Point)[:2], fields_of(Shape)[:2], fields_of(int)
    (('listed', ('x', 'y')), ('tuple', ('module', 'name', 'form', 'fields')), None)
    """
    if not _is_plain(cls):
        return None
    if issubclass(cls, tuple):
        names = getattr(cls, "_fields", None)
        if not isinstance(names, tuple) or not hasattr(cls, "_field_defaults"):
            return None
        given: dict[str, Any] = cls._field_defaults
        return ClassFields(TUPLE, names, {name: functools.partial(_same, value) for name, value in given.items()}, {})
    getstate = getattr(cls, "__getstate__", None)
    if "__dataclass_fields__" in vars(cls):
        listed = getstate in _LISTING
        if not listed and not _is_default(cls):
            return None
        return _of_dataclass(cls, LISTED if listed else _by_name(cls))
    if "__attrs_attrs__" in vars(cls):
        own = getattr(getstate, "__name__", "") == "slots_getstate"
        return _of_attrs(cls, ATTRS if own else _by_name(cls)) if own or _is_default(cls) else None
    if not _is_default(cls) or _by_name(cls) is NAMED:
        return None
    return ClassFields(SLOTTED, tuple(copyreg._slotnames(cls)), {}, {})  # type: ignore[attr-defined]


def _is_plain(cls: Any) -> bool:
    """Return True if objects of a class are pickled as Python does it unasked: made anew, then given their state."""
    made = cls.__reduce_ex__ is object.__reduce_ex__ and cls.__reduce__ is object.__reduce__
    if issubclass(cls, tuple):
        return made and getattr(getattr(cls, "__getnewargs__", None), "__code__", None) is _NEW_ARGUMENTS
    with_arguments = hasattr(cls, "__getnewargs__") or hasattr(cls, "__getnewargs_ex__")
    return made and not with_arguments and cls not in copyreg.dispatch_table and cls.__module__ != "builtins"


def _is_default(cls: Any) -> bool:
    """Return True if Python takes the state of an object, and sets it, in its default way."""
    return cls.__getstate__ is object.__getstate__ and not hasattr(cls, "__setstate__")


def _of_dataclass(cls: Any, form: str) -> ClassFields:
    defaults: dict[str, Callable[[], Any]] = {}
    former: dict[str, tuple[str, ...]] = {}
    fields = dataclasses.fields(cls)
    for field in fields:
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = functools.partial(_same, field.default)
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory
        was = field.metadata.get("was", ())
        if was:
            former[field.name] = (was,) if isinstance(was, str) else tuple(was)
    return ClassFields(form, tuple(field.name for field in fields), defaults, former)


def _by_name(cls: Any) -> str:
    return NAMED if any("__dict__" in vars(base) for base in cls.__mro__[:-1]) else SLOTTED


def _of_attrs(cls: Any, form: str) -> ClassFields:
    defaults: dict[str, Callable[[], Any]] = {}
    for each in cls.__attrs_attrs__:
        if hasattr(each.default, "factory"):
            if not each.default.takes_self:
                defaults[each.name] = each.default.factory
        elif type(each.default).__name__ != "_Nothing" and repr(each.default) != "NOTHING":
            defaults[each.name] = functools.partial(_same, each.default)
    return ClassFields(form, tuple(each.name for each in cls.__attrs_attrs__), defaults, {})


def _same(value: Any) -> Any:
    return value


@functools.lru_cache(maxsize=4096)
def _shape(cls: type) -> Shape | None:
    found = None if issubclass(cls, enum.Enum) else fields_of(cls)
    return None if found is None else Shape(cls.__module__, cls.__qualname__, found.form, found.names)


def shape_of(cls: type) -> Shape | None:
    """Return the shape to save a class with; None if it has none, or cannot be found by its name."""
    shape = _shape(cls)
    return shape if shape is not None and _find(shape.module, shape.name, load=False) is cls else None


def _find(module: str, name: str, load: bool = True) -> Any:
    found: Any = sys.modules.get(module)
    if found is None and load:
        found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part) if load else getattr(found, part, None)
    return found


# ---- writing


class _Types(dict[type, Any]):
    """The reducers of objects by type, as Python's; they record the types of the objects that are pickled."""

    def __missing__(self, cls: type) -> Any:
        if issubclass(cls, type):
            raise KeyError(cls)  # classes go by name
        reduce = _of_member if issubclass(cls, enum.Enum) else copyreg.dispatch_table.get(cls, _AS_EVER)
        self[cls] = reduce
        return reduce

    def shapes(self) -> list[Shape]:
        """Return the shapes of the types."""
        return [shape for cls in self if (shape := shape_of(cls)) is not None]


_AS_EVER: Any = operator.methodcaller("__reduce_ex__", PROTOCOL)


def _of_member(value: Any) -> Any:
    cls = type(value)
    own = cls.__reduce_ex__
    if getattr(own, "__module__", "") != "enum" or cls.__members__.get(value.name) is not value:
        return value.__reduce_ex__(PROTOCOL)
    return member, (cls, value.name, value.value)


Met = Callable[[Shape], None]


def dumps_state(value: Any, met: Met) -> bytes:
    """Pickle state, with the shapes of its classes, each of which is passed to ``met``; raises pickle's errors.

    >>> load_state(dumps_state({"a": (1, 2)}, print))
    {'a': (1, 2)}
    """
    file = io.BytesIO()
    pickler = pickle.Pickler(file, PROTOCOL)
    types = _Types()
    pickler.dispatch_table = types
    pickler.dump(value)
    return _head(types.shapes(), met) + file.getvalue() if types else file.getvalue()


def _head(shapes: list[Shape], met: Met) -> bytes:
    """Return the head of a pickle: the shapes of its classes."""
    if not shapes:
        return b""
    for shape in shapes:
        met(shape)
    content = json.dumps(shapes, separators=(",", ":")).encode()
    return _MARK + len(content).to_bytes(4, "big") + content


_PLAIN = frozenset((int, str, float, bool, bytes, type(None)))


class StateDumper:
    """Pickles one value after the other, as rows of a database are; it is not for several threads.

    >>> dumps = StateDumper(print)
    >>> load_state(dumps((1, 2))), load_state(dumps([1, 2]))
    ((1, 2), [1, 2])
    """

    def __init__(self, met: Met) -> None:
        self._met = met
        self._types = _Types()
        self._count = 0
        self._head = b""

    def __call__(self, value: Any) -> bytes:
        """Pickle a value; raises pickle's errors."""
        # Hot: once per row.
        if type(value) in _PLAIN or not self._types:
            data = pickle.dumps(value, PROTOCOL)
            if _CLASS not in data:
                return data
        file = io.BytesIO()
        pickler = pickle.Pickler(file, PROTOCOL)
        pickler.dispatch_table = types = self._types
        pickler.dump(value)
        if len(types) != self._count:
            self._count = len(types)
            self._head = _head(types.shapes(), self._met)
        return self._head + file.getvalue()


# ---- reading


class Find(Protocol):
    """Finds classes in place of Python."""

    def __call__(self, module: str, name: str, /) -> Any:
        """Return a class or function."""
        ...

    def of_shape(self, cls: Any, shape: Shape) -> Any:
        """Return a maker of objects of a class that was found, None to make them as ever."""
        ...

    def changed(self, shape: Shape) -> Any:
        """Return the stand-in for a class that has changed."""
        ...


def load_state(data: bytes | memoryview, find: Find | None = None) -> Any:
    """Return the unpickled object; ``find`` finds classes in place of Python."""
    if find is not None:
        return load_stream(io.BytesIO(data), find)
    if data[0] != _MARK[0]:
        return loads(data)
    begin = 5 + int.from_bytes(data[1:5], "big")
    readers = _readers(bytes(data[5:begin]))
    rest = memoryview(data)[begin:]
    return _Adapting(io.BytesIO(rest), readers).load() if readers else loads(rest)


def load_stream(stream: io.BytesIO, find: Find | None = None) -> Any:
    """Return the object that is pickled at the place of a stream."""
    place = stream.tell()
    readers: dict[tuple[str, str], Any] = {}
    if stream.read(1) == _MARK:
        head = stream.read(int.from_bytes(stream.read(4), "big"))
        readers = _readers(head) if find is None else _lenient_readers(head, find)
    else:
        stream.seek(place)
    if find is not None:
        return _Finding(stream, readers, find).load()
    return _Adapting(stream, readers).load() if readers else load(stream)


def _readers(head: bytes) -> dict[tuple[str, str], Any]:
    """Return, by the names of classes, the makers of objects of those that have changed."""
    # Hot: once per row of a database that has such objects.
    known = _known.get(head)
    if known is not None:
        modules = sys.modules
        for name, module, top, found in known[0]:
            if modules.get(name) is not module or module.__dict__.get(top) is not found:
                break  # the class was defined anew
        else:
            return known[1]
    places, readers = [], {}
    for module, name, form, fields in json.loads(head):
        now = module_now(module)
        cls, top = _find(now, name), name.partition(".")[0]
        places.append((now, sys.modules[now], top, getattr(sys.modules[now], top)))
        reader = _reader(cls, Shape(module, name, form, tuple(fields)))
        if reader is not cls or now != module:
            readers[module, name] = reader
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[head] = places, readers
    return readers


_known: dict[bytes, tuple[list[tuple[str, Any, str, Any]], dict[tuple[str, str], Any]]] = {}
_MOST_KNOWN = 1000


def _lenient_readers(head: bytes, find: Find) -> dict[tuple[str, str], Any]:
    readers = {}
    for module, name, form, fields in json.loads(head):
        shape = Shape(module, name, form, tuple(fields))
        cls = find(module_now(module), name)
        try:
            readers[module, name] = find.of_shape(cls, shape) or _reader(cls, shape)
        except ClassChanged:
            readers[module, name] = find.changed(shape)
    return readers


class _Adapting(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, readers: dict[tuple[str, str], Any]) -> None:
        super().__init__(stream)
        self._readers = readers

    def find_class(self, module: str, name: str) -> Any:
        """Return a class, or the maker of its objects by name."""
        return self._readers.get((module, name)) or super().find_class(module_now(module), name)


class _Finding(_Adapting):
    def __init__(self, stream: io.BytesIO, readers: dict[tuple[str, str], Any], find: Find) -> None:
        super().__init__(stream, readers)
        self._find = find

    def find_class(self, module: str, name: str) -> Any:
        """Return the maker of objects by name, or the result of ``find``."""
        return self._readers.get((module, name)) or self._find(module_now(module), name)


def member(cls: Any, name: str, value: Any) -> Any:
    """Return the member of an enum by its name; by its value if it has another name now."""
    found = cls.__members__.get(name)
    if found is not None:
        return found
    try:
        return cls(value)
    except ValueError:
        raise ClassChanged(
            f"the enum {cls.__module__}.{cls.__qualname__} has neither the member {name!r} that was saved nor one with its "
            f"value, {value!r}. Bring it back."
        ) from None


@functools.lru_cache(maxsize=4096)
def _reader(cls: Any, shape: Shape) -> Any:
    if not isinstance(cls, type):
        raise ClassChanged(f"{shape.label} was a class and is {cls!r:.80} now. Bring the class back under this name.")
    now = fields_of(cls)
    if now is not None and now.form == shape.form and (
        now.names == shape.fields or (shape.form in _BY_NAME and set(now.names) == set(shape.fields))
    ):  # fmt: skip
        return cls
    if now is None and shape.form in _BY_NAME and (shape.form == NAMED or hasattr(cls, "__setstate__")):
        return cls  # it says itself what it makes of its state, or has no declared fields
    plan = _plan(cls, shape, now)
    _ADAPTED.add(cls)
    return _tuple_reader(cls, plan) if shape.form == TUPLE else _state_reader(cls, shape, plan)


class _Plan(NamedTuple):
    """A conversion of fields: the saved name of each field, the defaults of new ones, and the dropped ones."""

    names: dict[str, str]
    defaults: dict[str, Callable[[], Any]]
    dropped: frozenset[str]
    fields: ClassFields | None
    saved: tuple[str, ...]

    def values(self, saved: dict[str, Any]) -> dict[str, Any]:
        """Return the values by today's names; attributes that are no fields stay."""
        found = {name: saved[was] for name, was in self.names.items() if was in saved}
        found.update((name, make()) for name, make in self.defaults.items())
        taken = {*self.names.values(), *self.dropped, *found}
        found.update((name, value) for name, value in saved.items() if name not in taken)
        return found


def _plan(cls: type, shape: Shape, now: ClassFields | None) -> _Plan:
    if now is None:
        if shape.form == TUPLE:
            raise _refused(shape, now, "it was a named tuple and is none any more")
        return _Plan({name: name for name in shape.fields}, {}, frozenset(), None, shape.fields)
    if now.form == TUPLE and shape.form != TUPLE:
        raise _refused(shape, now, "it is a named tuple now and was none")
    names: dict[str, str] = {}
    for name in now.names:
        was = next((each for each in (name, *now.former.get(name, ())) if each in shape.fields), None)
        if was is not None:
            names[name] = was
    new = [name for name in now.names if name not in names]
    missing = [name for name in new if name not in now.defaults]
    if missing:
        raise _refused(shape, now, f"the field {missing[0]!r} is new and has no default")
    dropped = frozenset(shape.fields) - frozenset(names.values())
    if dropped:
        logger.warning(
            "The class %s in state was saved with %s, which it has no more: dropped. A field with another name says so: "
            "field(metadata={'was': 'old name'}).",
            shape.label,
            ", ".join(map(repr, sorted(dropped))),
        )
    return _Plan(names, {name: now.defaults[name] for name in new}, dropped, now, shape.fields)


def _refused(shape: Shape, now: ClassFields | None, fact: str) -> ClassChanged:
    today = f"has {', '.join(now.names) or 'none'}" if now is not None else "has no declared fields"
    return ClassChanged(
        f"the class {shape.label} has changed since the state was saved: {fact}. It was saved with the fields "
        f"{', '.join(shape.fields) or '(none)'}, and {today} now. Give new fields a default or a "
        "default_factory, name the old name of a renamed one, "
        "field(metadata={'was': 'old name'}), or start with the class as it was."
    )


def _tuple_reader(cls: Any, plan: _Plan) -> Any:
    fields = plan.fields

    def make(_: Any, *values: Any) -> Any:
        found = plan.values(dict(zip(plan.saved, values, strict=True)))
        if fields is not None and fields.form == TUPLE:
            return tuple.__new__(cls, [found[name] for name in fields.names])
        made = object.__new__(cls)
        for name, value in found.items():
            _set(made, name, value)
        return made

    return type(cls.__name__, (), {"__slots__": (), "__new__": make})


def _watches_subclasses(cls: Any) -> bool:
    """Return True if a class acts when another derives from it, which a reader of state must not trigger."""
    hook = getattr(cls.__init_subclass__, "__func__", None)
    return hook is not None and hook.__module__ != "typing"


def _state_reader(cls: Any, shape: Shape, plan: _Plan) -> Any:
    """Return a subclass whose objects become objects of the class when their state is set."""

    def given(self: Any, state: Any) -> None:
        _set(self, "__class__", cls)
        if isinstance(state, list):
            state = dict(zip(shape.fields, state, strict=True))
        elif isinstance(state, tuple):
            state = {**(state[0] or {}), **(state[1] or {})}
        if plan.fields is None and hasattr(cls, "__setstate__"):
            self.__setstate__(state)
            return
        for name, value in plan.values(state).items():
            _set(self, name, value)

    def made(_: Any, *arguments: Any) -> Any:
        found = object.__new__(cls)
        for name, value in plan.values({}).items():
            _set(found, name, value)
        return found

    by_name = (
        shape.form == NAMED and not hasattr(cls, "__setstate__") and all(new == old for new, old in plan.names.items())
    )
    if not shape.fields or (by_name and _watches_subclasses(cls)):  # an object without fields was saved without a state
        return type(cls.__name__, (), {"__slots__": (), "__new__": made})
    if _watches_subclasses(cls):
        raise _refused(shape, plan.fields, "its objects cannot be made by name, as it has an __init_subclass__")
    return type(cls)(cls.__name__, (cls,), {"__slots__": (), "__setstate__": given})


# ---- before a job starts


def is_changed(shape: Shape) -> bool:
    """Return True if objects of a shape are made by name; raise ``ClassChanged`` if they cannot be.

    Classes that cannot be imported here are left to the readers of their objects.
    """
    try:
        found = _find(shape.module, shape.name)
    except Exception:  # noqa: BLE001 - whatever an import raises
        return False
    return _reader(found, shape) is not found


def any_adapted() -> bool:
    """Return True if a class has been read by name in this process."""
    return bool(_ADAPTED)


def is_adapted(key: Any) -> bool:
    """Return True if a key has objects of a class that was read by name."""
    return type(key) in _ADAPTED or (isinstance(key, tuple) and any(map(is_adapted, key)))


# ---- Pickling of what belongs to users: records, state, programs. The only place that chooses between pickle and
# cloudpickle.
#
# ``dumps`` is for data: pickle where it can, which is fast, and cloudpickle for instances of local classes.
# ``dumps_by_value`` is for programs: functions and classes of ``__main__`` travel as they are, Spark's broadcast
# variables as their value. Both take a function that makes the error, so that it names the operator, the record and
# the remedy; whatever a user's ``__reduce__`` raises is its cause.
#
# Code keeps the name of its file. cloudpickle replaces it with ``<dynamic-code>`` since 3.1.3; tracebacks would
# lose the lines of the user's source, and nothing could read a function's source to run it on columns.


def _code_of_file(name: str, make: Callable[..., CodeType], *parts: Any) -> CodeType:
    return make(*parts).replace(co_filename=name)


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    make, parts = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return _code_of_file, (code.co_filename, make, *parts)


class BroadcastValue:
    """A broadcast variable of Spark in a function that has travelled: ``value`` is the same."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _reduce_broadcast(variable: Any) -> tuple[Any, ...]:
    return BroadcastValue, (variable.value,)


def _refuse_accumulator(variable: Any) -> tuple[Any, ...]:
    raise TypeError(
        "an accumulator of Spark counts in Spark's own jobs only. Count with a metric, "
        "runtime_context.get_metrics_group().counter(name) in open() of the function, or emit the values to count"
    )


_REDUCE: dict[type, Callable[[Any], Any]] = {CodeType: _reduce_code}
_BROADCAST, _ACCUMULATORS = "pyspark.core.broadcast", "pyspark.accumulators"


class _ByValue(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar = ChainMap(_REDUCE, cloudpickle.Pickler.dispatch_table)


def _by_value(content: Any) -> bytes:
    if _BROADCAST in sys.modules:  # Spark gives its workers the value, and only with functions that it pickles itself
        _REDUCE[sys.modules[_BROADCAST].Broadcast] = _reduce_broadcast
    if _ACCUMULATORS in sys.modules:  # a copy in a worker would count, and nobody would see it
        _REDUCE[sys.modules[_ACCUMULATORS].Accumulator] = _refuse_accumulator
    file = io.BytesIO()
    _ByValue(file, PROTOCOL).dump(content)
    return file.getvalue()


def dumps(content: Any, failure: Callable[..., Exception], *details: Any) -> bytes:
    """Pickle data; raise ``failure(error, *details)`` if that is impossible.

    >>> import threading
    >>> dumps([1, 2], lambda error, what: ValueError(f"{what}: {error}"), "numbers") == pickle.dumps([1, 2], PROTOCOL)
    True
    >>> dumps(threading.Lock(), lambda error, what: ValueError(f"{what}: {error}"), "a lock")
    Traceback (most recent call last):
    ...
    ValueError: a lock: cannot pickle '_thread.lock' object
    """
    try:
        return pickle.dumps(content, PROTOCOL)
    except Exception:  # noqa: BLE001 - whatever a user's __reduce__ raises; the retry reports it
        return dumps_by_value(content, failure, *details)


def dumps_by_value(content: Any, failure: Callable[..., Exception], *details: Any) -> bytes:
    """Pickle functions and classes that cannot be imported, too; raise ``failure(error, *details)`` if that is impossible."""
    try:
        return _by_value(content)
    except Exception as error:
        explained = failure(error, *details)
        if explained is error:
            raise
        raise explained from error


def first_unpicklable(values: Iterable[Any]) -> tuple[int, Any, Exception] | None:
    """Return the number of the first value that cannot be pickled, the value, and why; ``None`` if all can.

    >>> number, value, error = first_unpicklable([1, open, iter(())  , (i for i in ())])
    >>> number, type(error).__name__
    (3, 'TypeError')
    """
    for number, value in enumerate(values):
        try:
            _by_value(value)
        except Exception as error:  # noqa: BLE001 - whatever a user's __reduce__ raises
            return number, value, error
    return None


def dumps_records(values: list[Any], operator: str, subtask: int) -> bytes:
    """Pickle records that an operator emits; raises ``RecordNotPicklable``."""
    return dumps(values, record_not_picklable, values, operator, subtask)


def record_repr(record: Any) -> str:
    """Return a record as an error message shows it: not too long, even if its ``__repr__`` fails."""
    try:
        text = repr(record)
    except Exception as error:  # noqa: BLE001 - another error is reported
        return f"<{type(record).__qualname__} whose __repr__ raises {type(error).__name__}>"
    return text if len(text) <= 200 else text[:197] + "..."


def record_not_picklable(error: Exception, values: list[Any], operator: str, subtask: int) -> RecordNotPicklable:
    """Return the error that names the record."""
    found = first_unpicklable(values)
    culprit = found[1] if found else None
    return RecordNotPicklable(
        f"operator {operator!r} (subtask {subtask}) emitted a record of type {type(culprit).__qualname__!r} that cannot "
        f"be sent to another task: {type(error).__name__}: {error}. The record: {record_repr(culprit)}. Emit plain data, and "
        "open files, locks and connections in open() of the function that uses them.",
        operator,
        subtask,
    )
