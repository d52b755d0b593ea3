"""Requirements of user functions, checked when the program is built, or at the first result.

A generator function given to ``map`` would emit generators, a coroutine function nothing that can be used; a method with a name
that Funken does not call would never run; and a text returned as the *results* of a record would be spread into its letters.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import enum
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import CodeType, FrameType, FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from funken.errors import InvalidProgram
from funken.types.row import Row

_SEVERAL: set[type] = {
    list,
    tuple,
    set,
    frozenset,
    GeneratorType,
    range,
    map,
    filter,
    zip,
    reversed,
    enumerate,
    type(iter([])),
}
"""Types of results that are gone through without another look."""
_OPTIONAL = {"merge", "process_timed_out_match"}
_GIVES_SEVERAL = (
    "flat_map",
    "join",
    "process",
    "apply",
    "co_group",
    "on_timer",
    "map_partition",
    "map_block",
    "combine",
)


_ARGUMENTS = {
    "map": "the record",
    "filter": "the record",
    "flat_map": "the record",
    "for_each": "the record",
    "get_key": "the record",
    "reduce": "the result so far, the record",
    "process_element": "the record, the context",
    "partition": "the key, the number of partitions",
    "extract_timestamp": "the record, its timestamp so far",
    "apply_keyed": "the key, the window, the records",
    "apply_all": "the window, the records",
    "select": "the match",
    "flat_select": "the match",
    "timeout": "the match, the time",
}
"""The arguments of a function, by its method."""
_GROWS = ("append", "extend", "insert", "add", "update", "setdefault", "__setitem__", "put", "put_nowait")


def check_function(function: Any, method: str, role: str, several: bool | None = None) -> None:
    """Raise ``InvalidProgram`` for a function that an operator cannot call as it is.

    ``several``: it may yield its results; ``None``: the method's name says whether. ``role`` names the operator.

    >>> def words(line):
    ...     yield from line.split()
    >>> check_function(words, "flat_map", "flat_map()")
    >>> check_function(words, "map", "map()")
    Traceback (most recent call last):
        ...
    funken.errors.InvalidProgram: map() needs a function that returns one value, but 'words' is a generator function: it yields.
    Return the value, or use flat_map() for several results of a record.
    """
    called, name = _called(function, method)
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        raise InvalidProgram(
            f"{role} calls its function and uses the result, but {name!r} is a coroutine function (async def), which "
            "returns a coroutine. Use AsyncDataStream for functions that wait, or a plain function."
        )
    if several is None:
        several = method.startswith(_GIVES_SEVERAL)
    if not several and inspect.isgeneratorfunction(called):
        remedy = " Return the value" + (
            ", or use flat_map() for several results of a record." if method == "map" else "."
        )
        raise InvalidProgram(
            f"{role} needs a function that returns one value, but {name!r} is a generator function: it yields.{remedy}"
        )
    owner = getattr(called, "__self__", None)
    if isinstance(owner, list | dict | set | bytearray) and getattr(called, "__name__", "") in _GROWS:
        raise InvalidProgram(
            f"{role} got {type(owner).__name__}.{called.__name__}: it would fill a copy in each worker, and the program's own "
            f"{type(owner).__name__} stays as it is. Take the records with execute_and_collect(), or write them with sink_to()."
        )


_given: WeakKeyDictionary[FunctionType, dict[str, Any]] = WeakKeyDictionary()
"""Functions of programs, with the plain values that the names around them had when they were given."""


def remember_names(function: Any) -> None:
    """Remember the values of the names that a function without a name of its own reads."""
    if isinstance(function, FunctionType) and function.__name__ == "<lambda>":
        _given[function] = {
            name: value for name, value in outer_values(function) if isinstance(value, int | str | float)
        }


def changed_names(function: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the names that have other values now, with the former and the present ones.

    >>> functions = []
    >>> for i in range(3):
    ...     functions.append(lambda n: n + i)
    ...     remember_names(functions[-1])
    >>> list(changed_names(functions[0])), list(changed_names(functions[2]))
    ([('i', 0, 2)], [])
    """
    before = _given.get(function, {}) if isinstance(function, FunctionType) else {}
    for name, value in outer_values(function) if before else ():
        if name in before and value is not before[name] and value != before[name]:
            yield name, before[name], value


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield a code, and the codes of the functions in it.

    >>> [each.co_name for each in codes_in((lambda: lambda: None).__code__)]
    ['<lambda>', '<lambda>']
    """
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def outer_values(function: FunctionType, codes: Sequence[CodeType] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the global variables that a function (or these ``codes`` of it) names, and those around it, with their values.

    >>> def scaled(factor):
    ...     return lambda n: [abs(each) * factor for each in n]
    >>> list(outer_values(scaled(2)))
    [('factor', 2)]
    """
    for name in dict.fromkeys(name for code in codes or (function.__code__,) for name in code.co_names):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # a variable that has no value yet
            yield name, cell.cell_contents


def check_arguments(function: Any, method: str, role: str, arguments: str | None = None) -> None:
    """Raise ``InvalidProgram`` for a function that cannot be called with its operator's arguments, or with those in a text.

    >>> check_arguments(lambda key, value: value, "map", "map()")
    Traceback (most recent call last):
        ...
    funken.errors.InvalidProgram: map() calls its function with 1 argument (the record), but '<lambda>' takes (key, value).
    Take one parameter, and unpack the record in the function.
    """
    arguments = arguments or _ARGUMENTS.get(method)
    if arguments is None:
        return
    found = function
    if not callable(found) or (not isinstance(found, FunctionType | partial) and hasattr(type(found), method)):
        found = getattr(found, method, found)
    try:
        signature = inspect.signature(found, follow_wrapped=False)
    except (TypeError, ValueError):
        return  # a function in C does not say
    given, (_, name) = arguments.split(", "), _called(function, method)
    try:
        signature.bind(*given)
    except TypeError:
        shown = name.rpartition("<locals>.")[2]
        count = f"{len(given)} argument{'s' if len(given) > 1 else ''}"
        wanted = sum(each.default is each.empty for each in signature.parameters.values())
        remedy = "Take these"
        if isinstance(found, MethodType) and not signature.parameters:
            remedy = "A method takes self first"
        if method == "process_element" and wanted > len(given):
            remedy = "There is no collector: yield the results"
        elif method == "flat_map" and wanted > len(given):
            remedy = "Unpack the record in the function; there is no collector: yield the results"
        elif wanted > len(given):
            remedy = f"Take {'one parameter' if len(given) == 1 else 'these'}, and unpack the record in the function"
        raise InvalidProgram(
            f"{role} calls its function with {count} ({arguments}), but {shown!r} takes {signature}. {remedy}."
        ) from None


def _called(function: Any, method: str) -> tuple[Any, str]:
    """Return the function that is called in the end, and its name."""
    found = function
    if not callable(found) or (not isinstance(found, FunctionType | partial) and hasattr(type(found), method)):
        found = getattr(found, method, found)
    while isinstance(found, partial):
        found = found.func
    name = getattr(found, "__qualname__", None) or type(found).__qualname__
    if not inspect.isroutine(found) and not isinstance(found, type) and callable(found):
        found = type(found).__call__
    return found, str(name)


def written(code: CodeType) -> str:
    """Return the name and the place of a function's code, for a message.

    >>> written(check_arguments.__code__).partition(",")[0]
    "'check_arguments' (callables.py"
    """
    return f"{code.co_name!r} ({os.path.basename(code.co_filename)}, line {code.co_firstlineno})"


def frame_of_program() -> FrameType | None:
    """Return the frame of the program that calls Funken; ``None`` if only Funken is at work."""
    frame = sys._getframe().f_back
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("funken."):
        frame = frame.f_back
    return frame


def place_of_program() -> str:
    """Return the line of the program that calls Funken, as ``job.py, line 12``; ``""`` if only Funken is at work."""
    frame = frame_of_program()
    if frame is None:
        return ""
    file = frame.f_code.co_filename
    return f"{'the cell' if 'ipykernel' in file else os.path.basename(file)}, line {frame.f_lineno}"


def shown_function(function: Any) -> str:
    """Return a function for a message: its name and place if it has code, else its text."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return repr(function) if code is None else written(code)


def check_stream(stream: Any, role: str, *kinds: type) -> None:
    """Raise ``TypeError`` for an argument that is no stream."""
    if not isinstance(stream, kinds):
        remedy = " Make one of it with from_collection()." if isinstance(stream, list | tuple) else ""
        raise TypeError(f"{role} takes streams, but got {stream!r:.100} ({type(stream).__name__}).{remedy}")


def check_fields(made: object) -> None:
    """Raise ``TypeError`` for a text in a field of a connector that is declared as a class of Funken, or as a tuple.

    >>> from funken.connectors.sql import SqlSink, SqliteDatabase
    >>> check_fields(SqlSink("shop.db", "items", ("id",)))
    Traceback (most recent call last):
        ...
    TypeError: SqlSink.database needs a SqlDatabase, but got 'shop.db'. Give one: ...
    >>> check_fields(SqlSink(SqliteDatabase("shop.db"), "items", ("id",), guarantee="exactly-once"))
    Traceback (most recent call last):
        ...
    TypeError: SqlSink.guarantee needs a DeliveryGuarantee, but got 'exactly-once'. Give DeliveryGuarantee.EXACTLY_ONCE.
    """
    for field in dataclasses.fields(made) if dataclasses.is_dataclass(made) else ():
        value, declared = getattr(made, field.name, None), str(field.type)
        if not isinstance(value, str):
            continue
        role = f"{type(made).__name__}.{field.name}"
        if declared.startswith(("tuple[", "Sequence[")):
            raise TypeError(f"{role} is a tuple, but got the text {value!r}. Write ({value!r},).")
        home = next(each for each in type(made).__mro__ if field.name in vars(each).get("__annotations__", {}))
        kind = getattr(sys.modules[home.__module__], declared, None) if declared.isidentifier() else None
        if isinstance(kind, type) and kind.__module__.startswith("funken.") and not issubclass(kind, str):
            check_kind(value, kind, role, _example(kind, value))


def _example(kind: type, text: str) -> str:
    if issubclass(kind, enum.Enum):
        member = next((each for each in kind if each.value == text), next(iter(kind)))
        return f"Give {kind.__name__}.{member.name}."
    known = [each.__name__ for each in kind.__subclasses__() if not each.__name__.startswith("_")] or [kind.__name__]
    return f"Give one: {', '.join(f'{name}(...)' for name in known)}."


def check_kind(given: Any, kind: type, role: str, remedy: str = "") -> None:
    """Raise ``TypeError`` for an argument of another type; say so if it is the class, a builder or a method instead.

    >>> check_kind("soon", int, "wait()", "Give seconds.")
    Traceback (most recent call last):
        ...
    TypeError: wait() needs an int, but got 'soon'. Give seconds.
    """
    if isinstance(given, kind):
        return
    if isinstance(given, type) and issubclass(given, kind):
        remedy = f"That is the class: give an object of it, as {given.__name__}(...) or one of its methods makes it."
    elif isinstance(given, MethodType | FunctionType) and (given.__module__ or "").startswith("funken."):
        remedy = "It is a method that was not called: put () behind its name."
    elif hasattr(given, "build"):
        remedy = "Call build() at its end."
    shown = repr(given)
    shown = shown if len(shown) <= 100 else f"{shown[:97]}..."
    name = kind.__name__
    raise TypeError(
        f"{role} needs {'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}, but got {shown}. {remedy}".rstrip()
    )


def check_methods(function: Any, base: type, role: str) -> None:
    """Raise ``InvalidProgram`` if an object of a subclass of ``base`` lacks a method that has to be defined, or misspells one.

    >>> from funken import ProcessFunction
    >>> class Parse(ProcessFunction):
    ...     def processElement(self, value, ctx):
    ...         yield value
    >>> Parse.__module__ = "program"
    >>> check_methods(Parse(), ProcessFunction, "process()")
    Traceback (most recent call last):
        ...
    funken.errors.InvalidProgram: process() got a Parse, which defines processElement(); Funken calls process_element().
    Rename the method.
    """
    if not isinstance(function, base):
        return
    cls = type(function)
    given = {
        name: each for theirs in reversed(cls.__mro__) if not _is_ours(theirs) for name, each in vars(theirs).items()
    }
    own = [name for name, each in given.items() if callable(each) and not name.startswith("_")]
    known = {
        name: each
        for ours in reversed(cls.__mro__)
        if _is_ours(ours)
        for name, each in vars(ours).items()
        if isinstance(each, FunctionType) and not name.startswith("_")
    }
    kind = f"{'an' if cls.__name__[:1] in 'AEIOU' else 'a'} {cls.__name__}"
    missing = [name for name in known if name not in given and name not in getattr(function, "__dict__", {})]
    for name in missing:
        for other in own:
            if other not in known and _bare(other) == _bare(name):
                raise InvalidProgram(
                    f"{role} got {kind}, which defines {other}(); Funken calls {name}(). Rename the method."
                )
    for name, each in known.items():
        theirs = given.get(name)
        if name not in _ARGUMENTS and isinstance(theirs, FunctionType):
            _check_parameters(theirs, each, f"{role} got {kind}, whose {name}()")
    for name in missing:
        if _is_abstract(known[name]) and name not in _OPTIONAL and getattr(cls, name) is known[name]:
            near = difflib.get_close_matches(name, [each for each in own if each not in known], 1, 0.5)
            has = f", only {near[0]}()" if near else ""
            raise InvalidProgram(f"{role} got {kind}, which does not define {name}(){has}. Define {name}().")


def _check_parameters(theirs: FunctionType, ours: FunctionType, what: str) -> None:
    """Raise ``InvalidProgram`` for a method that cannot be called with the arguments of Funken's own."""
    arguments = list(inspect.signature(ours).parameters.values())
    if any(each.kind is not each.POSITIONAL_OR_KEYWORD for each in arguments):
        return
    signature = inspect.signature(theirs)
    try:
        signature.bind(*(each.name for each in arguments))
    except TypeError:
        wanted = [each.name for each in arguments if each.default is each.empty]
        with contextlib.suppress(TypeError):
            signature.bind(*wanted)
            return
        raise InvalidProgram(
            f"{what} takes {signature}, but Funken calls it with ({', '.join(each.name for each in arguments)}). Take these; "
            "there is no collector: yield the results."
        ) from None


def _bare(name: str) -> str:
    return name.replace("_", "").lower()


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("funken", "builtins", "typing", "abc")


def _is_abstract(function: FunctionType) -> bool:
    """Return True if a method does nothing but raise ``NotImplementedError``."""
    return function.__code__.co_names == ("NotImplementedError",)


def check_several(made: Any, tuples: bool = True) -> None:
    """Raise ``TypeError`` if a function returned one record where its results are gone through.

    ``tuples``: a plain tuple is several results.

    >>> check_several(["to", "be"])
    >>> check_several("to be")
    Traceback (most recent call last):
        ...
    TypeError: the function returned the str 'to be', which would be spread into its parts. Return a list of results,
    [result], or yield each.
    """
    kind = type(made)
    if kind in _SEVERAL and (tuples or kind is not tuple):
        return
    one = isinstance(made, str | bytes | bytearray | Mapping | Row)
    if isinstance(made, tuple):
        one = not tuples or hasattr(kind, "_fields")
    shown = "" if kind in _SEVERAL and not one else repr(made)
    shown = shown if len(shown) <= 200 else f"{shown[:197]}..."
    if not hasattr(made, "__iter__") and not hasattr(made, "__getitem__"):
        raise TypeError(
            f"the function has to return or yield records, but returned {shown}. Return a list of results, "
            "[result], or yield each."
        )
    if one:
        raise TypeError(
            f"the function returned the {kind.__name__} {shown}, which would be spread into its parts. Return a list of results, "
            "[result], or yield each."
        )


def fields_of(value: Any) -> str:
    """Say which fields a record has, if it is no single value.

    >>> fields_of(("a", 1)), fields_of({"name": "ann"}), fields_of(7)
    ('has the fields 0 to 1', "has the field 'name'", '')
    """
    names = (
        [*value] if isinstance(value, dict) else getattr(value, "_fields", None) or getattr(value, "__match_args__", ())
    )
    if names:
        return f"has the field{'s' * (len(names) > 1)} {', '.join(map(repr, names[:30]))}"
    if isinstance(value, tuple | list) or hasattr(value, "_values"):
        return f"has the fields 0 to {len(value) - 1}" if len(value) else "has no fields"
    return ""


def several(function: Callable[..., Any], tuples: bool = True) -> Callable[..., Any]:
    """Return a function whose results are checked."""

    def checked(*arguments: Any) -> Any:
        made = function(*arguments)
        if made is not None:
            check_several(made, tuples)
        return made

    return checked


def check_collection(collection: Any, role: str) -> None:
    """Raise ``InvalidProgram`` for a table, a dict or a text given as a collection: its elements are no records.

    >>> check_collection({"a": 1}, "from_collection()")
    Traceback (most recent call last):
        ...
    funken.errors.InvalidProgram: from_collection() got a dict, whose elements are its keys. Give list(collection.items()) for
    pairs, or [collection] for one record.
    """
    kind = type(collection)
    package = kind.__module__.partition(".")[0]
    remedy = None
    if not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
        remedy = "Call the function: put () behind its name" if callable(collection) else "Give [record] for one record"
        raise TypeError(f"{role} needs a list or another collection, but got {collection!r:.100}. {remedy}.")
    if package in _TABLES and kind.__name__ in _TABLES[package]:
        what, remedy = _TABLES[package][kind.__name__]
        what = f"{'an' if package[0] in 'aeiou' else 'a'} {package} {kind.__name__}, {what}"
    elif isinstance(collection, str):
        what, remedy = (
            "a str, whose elements are its letters",
            "Give [text] for one record, text.splitlines() or text.split()",
        )
    elif isinstance(collection, bytes | bytearray):
        what, remedy = f"{kind.__name__}, whose elements are numbers", "Give [data] for one record"
    elif isinstance(collection, Mapping):
        what, remedy = (
            f"a {kind.__name__}, whose elements are its keys",
            ("Give list(collection.items()) for pairs, or [collection] for one record"),
        )
    elif isinstance(collection, Row) or (isinstance(collection, tuple) and hasattr(kind, "_fields")):
        what, remedy = f"a {kind.__name__}, whose elements are its fields", "Give [record] for one record"
    if remedy is not None:
        raise InvalidProgram(f"{role} got {what}. {remedy}.")


_ROWS = "which gives the names of its columns"
_TABLES = {
    "pandas": {
        "DataFrame": (
            _ROWS,
            "Give frame.to_dict('records'), or list(frame.itertuples(index=False, name=None)) for tuples",
        ),
        "Series": ("which loses its index", "Give series.tolist(), or list(series.items()) with the index"),
    },
    "polars": {
        "DataFrame": ("which gives its columns", "Give frame.to_dicts(), or frame.rows() for tuples"),
        "LazyFrame": ("which has no rows yet", "Give frame.collect().to_dicts()"),
    },
    "pyarrow": {
        "Table": ("which gives its columns", "Give table.to_pylist()"),
        "RecordBatch": (_ROWS, "Give batch.to_pylist()"),
    },
    "pyspark": {"DataFrame": ("which is read with Spark", "Use from_spark(frame)")},
}


# ---- Type parameters of the public classes, for type checkers; at run time they are names and nothing else.
#
# ``Generic`` is ``typing.Generic`` to a type checker. At run time it is a base class whose subscription gives the
# class itself: ``MapFunction[str, int]`` *is* ``MapFunction``. So type arguments cost nothing, are not pickled with
# a program or a checkpoint, and need not be importable on the workers. For the same reason they cannot be asked for
# at run time.
#
# Parameters of classes stand for ``Any`` where they are left out (PEP 696), so a program without annotations is
# checked as far as it is annotated. Variance is in the name: ``_co`` for what a class gives, ``_contra`` for what
# it takes.


if TYPE_CHECKING:
    from typing import Generic as Generic  # noqa: PLC0414 - the alias is what re-exports it

    from typing_extensions import TypeVar
else:
    import typing

    class Generic:
        """A base of classes with type parameters, which are ignored."""

        __slots__ = ()

        def __class_getitem__(cls, parameters):
            return cls

    def TypeVar(name, *, covariant=False, contravariant=False, bound=None, default=None):
        """Make a type variable; Python knows defaults from 3.13 on."""
        return typing.TypeVar(name, covariant=covariant, contravariant=contravariant)


T = TypeVar("T", default=Any)  # a record, a value
T_co = TypeVar("T_co", covariant=True, default=Any)
T_contra = TypeVar("T_contra", contravariant=True, default=Any)
F_contra = TypeVar("F_contra", contravariant=True, default=T_contra)  # a subtype of it
T1_co = TypeVar("T1_co", covariant=True, default=Any)  # records of the first of two streams
T2_co = TypeVar("T2_co", covariant=True, default=Any)
T1 = TypeVar("T1", default=Any)
T2 = TypeVar("T2", default=Any)
K = TypeVar("K", default=Any)  # a key
K_co = TypeVar("K_co", covariant=True, default=Any)
K_contra = TypeVar("K_contra", contravariant=True, default=Any)
V = TypeVar("V", default=Any)  # a value of a map
M = TypeVar("M", default=Any)  # a message between vertices
W = TypeVar("W", default=Any)  # a window
W_co = TypeVar("W_co", covariant=True, default=Any)
W_contra = TypeVar("W_contra", contravariant=True, default=Any)
O1_co = TypeVar("O1_co", covariant=True, default=Any)  # of the first of two data sets in an outer join, or None
O2_co = TypeVar("O2_co", covariant=True, default=Any)
NAME_co = TypeVar("NAME_co", covariant=True, default=Any)  # how two streams are put together
ACC = TypeVar("ACC", default=Any)  # an accumulator
TEXT_co = TypeVar("TEXT_co", covariant=True, default=str)  # records of a source whose schema is of texts by default
RECORD_contra = TypeVar("RECORD_contra", contravariant=True, default=object)  # of a sink that takes any by default
ROW_co = TypeVar("ROW_co", covariant=True, default=tuple[Any, ...])  # rows of a database
DOC_co = TypeVar("DOC_co", covariant=True, default=dict[str, Any])  # documents, or records of a declared type
IN_contra = TypeVar("IN_contra", contravariant=True, default=Any)  # what a function takes
IN1_contra = TypeVar("IN1_contra", contravariant=True, default=Any)
IN2_contra = TypeVar("IN2_contra", contravariant=True, default=Any)
OUT_co = TypeVar("OUT_co", covariant=True, default=Any)  # what it gives


class _Measures(Protocol[T_contra]):
    def get_delta(self, old: T_contra, new: T_contra, /) -> float: ...


Delta: TypeAlias = Callable[[T, T], float] | _Measures[T]
"""The distance of two records."""

# Parameters of single methods: solved where they are called, so there is nothing that they default to.
A = TypeVar("A")
R = TypeVar("R")
S = TypeVar("S")
N = TypeVar("N", default=None)  # of an argument that may be left out
D = TypeVar("D", bound=Any, default=Any)  # of a function's parameter where only the context can tell it
