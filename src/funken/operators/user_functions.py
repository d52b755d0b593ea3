"""User functions as the plan carries them: one class for lambdas, callables and function objects.

The API turns whatever the user gave into a ``UserFunction`` once; operators only ``bind`` it. A bound call is the plain
function or bound method, so that calling it costs nothing extra.
"""

from __future__ import annotations

import enum
import inspect
import os
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from difflib import get_close_matches
from importlib import import_module
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import BuiltinMethodType, CodeType, CoroutineType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, TypeVar

from funken.columnar.bytecode import (
    dropped_texts,
    gives_conditions,
    returns_call,
    returns_only_none,
)
from funken.connectors.base import Boundedness, Source
from funken.dataclass import dataclass
from funken.ids import MIN_TIMESTAMP
from funken.operators.base import OperatorContext, OperatorSpec, Output, OutputTag, RuntimeContext
from funken.operators.coordinators import OperatorCoordinator, OperatorCoordinatorContext
from funken.operators.kept import PER_RECORD, kept_outside
from funken.operators.mistakes import source_mistakes
from funken.operators.operator_state import prepare
from funken.operators.sources import code_of
from funken.state import handles
from funken.timing.clock import Clock
from funken.types.callables import check_several, fields_of, written
from funken.types.convert import converter
from funken.types.copying import copied, copied_block
from funken.types.info import TypeInformation
from funken.types.row import Row


@dataclass(frozen=True)
class UserFunction:
    """A user function: ``target`` itself if ``method`` is ``None``, else that method of it.

    ``rich`` functions are opened and closed with the operator.
    """

    target: Any
    method: str | None = None
    rich: bool = False

    def bind(self) -> Callable[..., Any]:
        """Return the callable to use per record."""
        call: Callable[..., Any] = self.target if self.method is None else getattr(self.target, self.method)
        return call

    def open(self, context: OperatorContext) -> None:
        """Open a rich function, with its operator state; warn of a generator whose results are lost."""
        prepare(self.target, context)
        for call in (self.bind(), getattr(self.target, "on_timer", None)):
            lost = lost_results(call)
            if lost is not None:
                context.warn("lost results", lost)
        halt = blocking_per_record(self.bind())
        if halt is not None:
            context.warn("blocking", halt)
        if self.rich:
            self.target.open(RuntimeContext(context))
        calls = [*self.per_record()]
        for kind, kept in kept_outside(self.target, calls, context.keyed is not None):
            context.warn(kind, kept)
        for call in calls:
            if (dropped := lost_text(call)) is not None:
                context.warn("texts", dropped)

    def per_record(self) -> Iterator[Callable[..., Any]]:
        """Yield the functions that get records, and that of timers."""
        found = [getattr(self.target, each) for each in (*PER_RECORD, "on_timer") if hasattr(type(self.target), each)]
        call = self.bind()
        yield from [] if call in found or (found and self.method is None) else [call]
        yield from found

    def close(self) -> None:
        """Close a rich function; do nothing for another."""
        if self.rich:
            self.target.close()

    def __repr__(self) -> str:
        target = self.target
        return getattr(target, "__qualname__", None) or type(target).__qualname__


def call_of(function: Any, method: str) -> UserFunction:
    """Return a function, a bound method or an object with a method as a call whose method, if any, is named.

    >>> call_of(len, "map").method, call_of("text".upper, "map").method
    (None, None)
    """
    if isinstance(function, MethodType):
        return UserFunction(function.__self__, function.__name__)
    return UserFunction(function) if callable(function) else UserFunction(function, method)


class ConvertedReduce:
    """A reduce function whose results are of a declared type, also where they are only its next argument."""

    def __init__(self, function: UserFunction, type_info: TypeInformation) -> None:
        self._function = function
        self._type_info = type_info

    def open(self, runtime_context: Any) -> None:
        """Open the function."""
        if self._function.rich:
            self._function.target.open(runtime_context)

    def close(self) -> None:
        """Close the function."""
        self._function.close()

    @property
    def reduce(self) -> Callable[[Any, Any], Any]:
        """The function and the converter in one call."""
        reduce, convert = self._function.bind(), converter(self._type_info)
        return lambda a, b: convert(reduce(a, b))

    @property
    def declared(self) -> tuple[UserFunction, TypeInformation]:
        """The function itself, and the type."""
        return self._function, self._type_info


def converted_reduce(function: UserFunction, type_info: TypeInformation | None) -> UserFunction:
    """Return the function, or one with a converter behind it if a type is declared."""
    if type_info is None:
        return function
    return UserFunction(ConvertedReduce(function, type_info), "reduce", function.rich)


def declared_of(call: UserFunction) -> tuple[UserFunction, TypeInformation | None]:
    """Return a reduce function as the program has it, and the type of its results, if that is declared.

    >>> from funken.types import Types
    >>> declared_of(converted_reduce(UserFunction(max), Types.INT()))
    (max, Integer)
    """
    return call.target.declared if isinstance(call.target, ConvertedReduce) else (call, None)


def check_of_first(call: UserFunction) -> Callable[[Any], None] | None:
    """Return the check of the first record, if the function is one by fields: ``sum(3)`` needs a field 3."""
    target = declared_of(call)[0].target
    return target.check_record if hasattr(target, "columns_folds") else None


# ---- Operators by name: a spec says which logic runs it without importing it.
#
# Specs travel in plans and are read on the driver; logics are imported where they run, and some of them load NumPy.


T = TypeVar("T")


def late_operator(kind: type[T], name: str, *arguments: Any) -> T:
    """Import ``module:class``, which is a ``kind``, and make one.

    >>> late_operator(int, "builtins:bool", 1)
    True
    """
    module, _, made = name.partition(":")
    operator = getattr(import_module(module), made)(*arguments)
    assert isinstance(operator, kind)
    return operator


# ---- Notice a ``map`` without results: a function that forgot its ``return`` gives ``None`` for every record.
#
# A function whose code can only return ``None`` is known when it is opened. Any other one is watched until it has
# given something else, or 1,000 times ``None``. The job's diagnosis says it once per operator.


RECORDS = 1000
"""So many results that are all ``None`` are warned of."""
KIND = "no results"
_REMEDY = "Return the result, or use for_each() for a function that is called for its effect."
_UNFINISHED = (GeneratorType, CoroutineType)
_NO_RECORDS: dict[type, str] = {
    GeneratorType: "Return list(...) of it, or use flat_map().",
    CoroutineType: "Await it in an AsyncFunction.",
    MethodType: "Call it: put () behind its name.",
    BuiltinMethodType: "Call it: put () behind its name.",
}
_SEVERAL = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


def without_return(
    call: Callable[..., Any], remedy: str = _REMEDY, fact: str = "returns nothing, so each result is None"
) -> str | None:
    """Return the warning for a function that returns nothing but ``None``, as ``print`` does; ``None`` for any other one.

    >>> def parse(line):
    ...     line.split(",")
    >>> without_return(parse)[:59]
    "its function 'parse' (<doctest funken.operators.user_functi"
    >>> without_return(str.split), without_return(lambda line: None)
    (None, None)
    """
    code = code_of(call)
    if call is print:
        return f"its function 'print' {fact}. {remedy}"
    if code is None or code.co_flags & _SEVERAL:
        return None
    if not (returns_call(code, "print") if code.co_name == "<lambda>" else returns_only_none(code)):
        return None
    return f"its function {written(code)} {fact}. {remedy}"


def lost_results(call: object) -> str | None:
    """Return the warning for a generator function that also returns a value, which nobody gets; else ``None``.

    >>> def large(value):
    ...     if value > 9:
    ...         return [value]
    ...     yield value
    >>> lost_results(large).partition("its ")[2].partition("(")[0], lost_results(str.split)
    ("function 'large' ", None)
    """
    code = code_of(call)
    if code is None or not code.co_flags & CO_GENERATOR or returns_only_none(code):
        return None
    fact = "yields, so it is a generator, and what it gives to return is lost"
    return f"its function {written(code)} {fact}. Yield each result, as in yield from results, and return nothing."


def blocking_in_coroutine(call: object) -> str | None:
    """Return the warning for a coroutine function that calls what blocks its thread; else ``None``.

    >>> import time
    >>> async def price(item):
    ...     time.sleep(1)
    >>> blocking_in_coroutine(price).partition(" calls ")[2]
    'time.sleep(), which stops all requests of the subtask. Await an asynchronous client, or give blocking(function).'
    """
    found = _blocking_call(call, coroutine=True)
    if found is None:
        return None
    remedy = "which stops all requests of the subtask. Await an asynchronous client, or give blocking(function)."
    return f"{found}, {remedy}"


def blocking_per_record(call: object) -> str | None:
    """Return the warning for a function of single records that calls what blocks its thread; else ``None``.

    >>> import time
    >>> def price(item):
    ...     time.sleep(1)
    >>> blocking_per_record(price).partition(" calls ")[2].partition(". ")[0]
    'time.sleep(): the subtask does nothing else meanwhile, so each record waits for all before it'
    """
    found = _blocking_call(call, coroutine=False)
    if found is None:
        return None
    remedy = "AsyncDataStream and blocking(function) wait for many records at once; a source has rate_per_second."
    return f"{found}: the subtask does nothing else meanwhile, so each record waits for all before it. {remedy}"


def _blocking_call(call: object, coroutine: bool) -> str | None:
    """Return the function that a function of the program calls and that blocks, as the beginning of a warning."""
    function = getattr(call, "__func__", call)
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None or bool(code.co_flags & CO_COROUTINE) is not coroutine:
        return None
    for name in code.co_names:
        module = getattr(function, "__globals__", {}).get(name)
        found = [each for each in _BLOCKING.get(getattr(module, "__name__", ""), ()) if each in code.co_names]
        if isinstance(module, ModuleType) and found:
            return f"its function {written(code)} calls {name}.{found[0]}()"
    return None


_BLOCKING = {
    "time": ("sleep",),
    "requests": ("get", "post", "put", "patch", "delete", "request"),
    "httpx": ("get", "post", "put", "patch", "delete", "request"),
    "subprocess": ("run", "check_output", "check_call", "call"),
}
"""Functions of modules that block their thread."""


def lost_text(call: Callable[..., Any]) -> str | None:
    """Return the warning for a function that drops the result of a text's method, which has no effect then; else ``None``.

    >>> def clean(line):
    ...     line.strip()
    ...     return line
    >>> "drops the result of strip()" in lost_text(clean)
    True
    >>> lost_text(str.split)
    """
    if (code := code_of(call)) is None:
        return None
    for name, line in dropped_texts(code):
        place = f"{os.path.basename(code.co_filename)}, line {line}"
        return (
            f"its function {code.co_name!r} ({place}) drops the result of {name}(), and a text itself never changes. Assign "
            f"the result, as in text = text.{name}(...)."
        )
    return None


def warnings_of(target: Any, call: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Yield the warnings of a process function, as category and text; ``call`` handles a record."""
    on_timer = getattr(type(target), "on_timer", None)
    mistakes = dict(source_mistakes(target, call))
    if on_timer is not None and not hasattr(target, "snapshot_state"):
        mistakes = dict(source_mistakes(target, target.on_timer, reads=False)) | mistakes
    yield from mistakes.items()
    if "source: change" not in mistakes and _never_writes(target):
        remedy = "a change within a value is lost. Write it with update()."
        yield "state", f"{type(target).__name__} reads a state with value() and never writes one: {remedy}"
    theirs = getattr(call, "__module__", None) or ""
    if theirs.startswith("funken.") or (on_timer is not None and not (on_timer.__module__ or "").startswith("funken.")):
        return
    silent = without_return(call, "Yield the results.", "yields nothing, so no record comes of it")
    if silent is not None:
        yield KIND, silent
    code = code_of(call)
    if code is not None and on_timer is not None and not _TIMERS.isdisjoint(code.co_names):
        remedy = "Define on_timer(self, timestamp, ctx): without it, nothing happens when they fire."
        yield "timers", f"its function {written(code)} registers timers, but there is no on_timer(). {remedy}"


def _never_writes(target: Any) -> bool:
    """Return True if an object's methods read a value state, and neither they nor their callees can write one."""
    if isinstance(target, FunctionType) or type(target).__module__.startswith("funken."):
        return False
    methods = [each for kind in type(target).__mro__ for each in vars(kind).values() if isinstance(each, FunctionType)]
    names = {name for each in methods for name in each.__code__.co_names}
    helpers = any(
        isinstance(each.__globals__.get(name), FunctionType) for each in methods for name in each.__code__.co_names
    )
    return {"get_state", "value"} <= names and "update" not in names and not helpers


_TIMERS = {"register_event_time_timer", "register_processing_time_timer"}


class Conditions:
    """Looks at the first results of a filter: results that are always true are warned of, once.

    >>> found = []
    >>> conditions = Conditions(lambda word: "no", lambda kind, text: found.append(text))
    >>> conditions.look_at("no"), found[0].partition(", not")[2]
    ('no', ' True or False: every str but the empty one is true. Return a condition, or bool() of it.')
    """

    def __init__(self, call: Callable[..., Any], warn: Callable[[str, str], None]) -> None:
        code = getattr(getattr(call, "__func__", call), "__code__", None)
        self._code: CodeType | None = code
        self._warn = warn
        self._left = _LOOKED_AT
        #: whether results are still looked at
        self.awaited = code is None or not gives_conditions(code)

    def look_at(self, result: Any) -> Any:
        """Return a result as it is."""
        self._left -= 1
        self.awaited = self.awaited and self._left > 0
        if self._left >= 0 and isinstance(result, _NO_CONDITIONS):
            self._left, self.awaited = 0, False
            kind, code = type(result).__name__, self._code
            place = "" if code is None else f" {written(code)}"
            which = f"every {kind} but the empty one is true. Return a condition, or bool() of it."
            if isinstance(result, _CALLABLES):
                which = f"a {kind} is always true. Call it, with ()."
            elif isinstance(result, _UNFINISHED):
                which = f"a {kind} is always true. Return a condition."
            self._warn(KIND, f"its function{place} returned the {kind} {result!r:.60}, not True or False: {which}")
        return result


_LOOKED_AT = 100
_CALLABLES = (MethodType, BuiltinMethodType, FunctionType, type)
_NO_CONDITIONS = (str, bytes, list, tuple, dict, set, *_CALLABLES, *_UNFINISHED)


def hint_of(error: BaseException, record: Any = None) -> str:
    """Return the remedy for an exception of a function, where a usual mistake raises it; else ``""``.

    >>> def hint(function, record):
    ...     try:
    ...         function(record)
    ...     except Exception as error:
    ...         return hint_of(error, record)
    >>> hint(lambda record: record.name, {"name": "ann"}), hint(lambda record: record[2], ("a", 1))
    ("A field of a dict is an item: write record['name'].", 'The record has the fields 0 to 1.')
    >>> hint(lambda word: word.upper.strip(), "to")
    'upper is a method: call it, with ().'
    """
    try:
        return _hint_of(error, record)
    except Exception:  # noqa: BLE001 - the program's own __str__, __dir__ or a property may raise
        return ""


_UNREAD = (
    "The record is a text: read it first, as with json.loads(record), or give the source a schema, as JsonSchema()."
)
_TEXT_AND_NUMBER = re.compile(
    r"can only concatenate str \(not \"(int|float)|'(int|float)' and 'str'|'str' and '(int|float)'"
)


_MIXTURES = (
    (
        "offset-naive and offset-aware",
        "One of them has a time zone, the other has none: give each one, as with at.replace(tzinfo=timezone.utc).",
    ),
    (
        r"'(decimal\.)?Decimal' and 'float'|'float' and '(decimal\.)?Decimal'",
        "One of them is a Decimal, the other a float: convert one, as with Decimal(str(value)) or float(value).",
    ),
    (
        "'tuple' object does not support item assignment",
        "A tuple cannot change: make a new one, as in (total + value, count + 1).",
    ),
    (
        "^unhashable type",
        "A list, a dict or a set may change, so it is no key of a dict or set: make a tuple or a frozenset of it.",
    ),
)
"""Values that do not go together, with the remedy."""


def _hint_of(error: BaseException, record: Any) -> str:
    of_list = isinstance(getattr(error, "obj", None), list) or (isinstance(error, TypeError) and "list" in str(error))
    if of_list and any(_is_match(each) for each in _arguments(error)):
        return "A match has a list of events for each name: write match[name][0] for the first."
    if isinstance(error, AttributeError) and error.name is not None:
        return _hint_of_attribute(error.obj, error.name, record)
    has = fields_of(record) or fields_of(next(iter(_arguments(error)), None))  # a match, say, is no record
    text = str(error)
    if isinstance(error, LookupError) and (result := _result_so_far(error, record)) is not None:
        return result
    if isinstance(error, LookupError) and has and "no field" not in text:
        return f"The record {has}."
    if isinstance(error, ValueError) and "to unpack (expected 2, got 1)" in text:
        return "If a dict or a map state is gone through: that gives keys, items() gives pairs."
    if isinstance(error, UnboundLocalError):
        return (
            "A name that a function assigns is the function's own: read the outer one under another name. To remember a "
            "value, use a state."
        )
    if isinstance(error, NameError):
        return f"Import or define {error.name} at the top of the program, or in the function."
    if isinstance(error, NotImplementedError):
        return _hint_of_missing_method(error)
    if not isinstance(error, TypeError):
        return ""
    if (misuse := _STATE_CALL.match(text)) is not None:
        return (
            f"It is {misuse[1]}.{misuse[2]}{_parameters(getattr(handles, misuse[1]), misuse[2])}: {_STATES[misuse[1]]}."
        )
    if "State'" in text:
        return "A state is read with value() or get(), and written with update() or add()."
    for fact, remedy in _MIXTURES:
        if re.search(fact, text) is not None:
            return remedy
    if "datetime.timedelta'" in text:
        return "Timestamps and times of timers are milliseconds: add a number of ms, such as 5000."
    if "'NoneType'" in text:
        return (
            "None may be a NULL of a table, a state that was never updated, ctx.timestamp() of a record without one, a missing "
            "field, or the result of a function without return."
        )
    if isinstance(record, str | bytes) and "indices must be" in text:
        return _UNREAD
    if _TEXT_AND_NUMBER.search(text) is not None:
        return "One of them is a text: convert it with int() or float(), or the number with str()."
    if _accumulator_first(error):
        return "add() is called with (value, accumulator), in this order: swap its parameters."
    if isinstance(record, list) and "list" in text:
        return "The record is a list: from_collection([...]) makes a record of each of its items."
    if "'int' object is not subscriptable" in text and list(map(type, _arguments(error)))[1:] == [int]:
        return "A timestamp assigner is called with (record, timestamp), in this order: take the record first."
    if "not subscriptable" in text and (result := _result_so_far(error, record)) is not None:
        return result
    if "not subscriptable" in text and hasattr(record, "__dict__"):
        return (
            f"A field of a {type(record).__name__} is an attribute: write record.name. The record {has}." if has else ""
        )
    return f"The record {has}." if "indices must be" in text and has else ""


def _hint_of_missing_method(error: BaseException) -> str:
    """Return the remedy for a class of the program that leaves a method to a base class of Funken, which has none."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    owner, name = frame.f_locals.get("self"), frame.f_code.co_name
    if owner is None or not frame.f_globals.get("__name__", "").startswith("funken."):
        return ""
    near = get_close_matches(
        name.replace("_", ""), [each for each in vars(type(owner)) if not each.startswith("_")], 1, 0.7
    )
    return f"{type(owner).__name__} does not define {name}(){f'; it has {near[0]}()' if near else ''}. Define {name}()."


def _is_match(value: Any) -> bool:
    """Return True for a dict of lists, as a pattern's match is one."""
    return isinstance(value, dict) and bool(value) and all(isinstance(each, list) for each in value.values())


def _accumulator_first(error: BaseException) -> bool:
    """Return True if a method ``add(self, accumulator, value)`` raised: its parameters are in the wrong order."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    return (
        code is not None and code.co_name == "add" and code.co_argcount == 3 and code.co_varnames[1].startswith("acc")
    )


def _parameters(owner: type, method: str) -> str:
    """Return the parameters of a method as they are written, without types."""
    signature = inspect.signature(getattr(owner, method))
    plain = [each.replace(annotation=each.empty) for name, each in signature.parameters.items() if name != "self"]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def _arguments(error: BaseException) -> list[Any]:
    """Return the arguments of the function that raised, without ``self``."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return []
    code, values = trace.tb_frame.f_code, trace.tb_frame.f_locals
    return [values.get(name) for name in code.co_varnames[: code.co_argcount] if name != "self"]


def _result_so_far(error: BaseException, record: Any) -> str | None:
    """Return the remedy for a reduce function whose first result was no record; ``None`` for any other function."""
    arguments = _arguments(error)
    if len(arguments) != 2 or arguments[1] is not record or type(arguments[0]) is type(record):
        return None
    return (
        f"The result so far is the {type(arguments[0]).__name__} {arguments[0]!r:.40}, and the record a "
        f"{type(record).__name__}: a reduce function returns a whole record, which it gets back with the next one."
    )


def _hint_of_attribute(owner: Any, name: str, record: Any) -> str:
    ours = type(owner).__module__.startswith("funken.")
    if ours and name in _IN_CONTEXT:
        return f"The runtime context has {name}(): open(self, runtime_context) gets it."
    if name == "get_runtime_context" and hasattr(owner, "open"):
        return (
            "The runtime context comes to open(self, runtime_context): ask it for states there, and keep them in self."
        )
    if ours and type(owner).__name__.startswith("ReadOnly"):
        return "It is read-only here: only process_broadcast_element() changes a broadcast state."
    if ours and type(owner).__name__.endswith("Descriptor"):
        return "A descriptor only describes a state: the runtime context has get_state(), get_map_state(), ... for it, in open()."
    if isinstance(owner, handles.State) and not hasattr(owner, _ADDITIONS.get(name, name)):
        kind = next(each.__name__ for each in type(owner).__mro__ if each.__name__ in _STATES)
        return f"A {kind} has no {name}: {_STATES[kind]}."
    if ours and name.endswith(("_timer", "_processing_time", "_watermark")) and hasattr(owner, "timer_service"):
        return f"The timer service has it: ctx.timer_service().{name}()."
    if ours and name == "get_current_key":
        return "Only a function of a keyed stream has a key: call key_by() before this operator."
    if ours and name in _ADDITIONS and hasattr(owner, _ADDITIONS[name]):
        return f"Use {_ADDITIONS[name]}()."
    if isinstance(owner, MethodType | BuiltinMethodType | FunctionType):
        return f"{owner.__name__} is a method: call it, with ()."
    if name == "collect":
        return "There is no collector: yield the results."
    if owner is None:
        return _hint_of(TypeError("'NoneType'"), None)
    if isinstance(owner, dict) and name in owner:
        return f"A field of a dict is an item: write record[{name!r}]."
    if isinstance(owner, str | bytes) and owner is record and hasattr(dict, name):
        return _UNREAD
    if name in _OF_STATES and isinstance(owner, int | float | str | list | dict | tuple):
        return "A state is written with update(): an assignment to its attribute replaces the state itself."
    if hasattr(owner, "open") and hasattr(owner, "close"):
        near = get_close_matches("open", vars(type(owner)), 1, 0.7)
        typo = f" It defines {near[0]}(), not open()." if near and near[0] != "open" else ""
        return f"Set self.{name} in open(self, runtime_context), or in __init__().{typo}"
    near = get_close_matches(name, [each for each in dir(owner) if not each.startswith("_")], 1, 0.7)
    if near:
        return f"Did you mean {near[0]}?"
    has = fields_of(owner)
    return f"The {'record' if owner is record else type(owner).__name__} {has}." if has else ""


_STATES = {
    "ValueState": "value() reads it, update(value) writes it",
    "ListState": "get() reads all items, add(value) appends one, update(values) replaces them",
    "MapState": "get(key) reads a value or None, put(key, value) writes one, contains(key) and items() look into it",
    "ReducingState": "get() reads it, add(value) adds to it",
    "AggregatingState": "get() reads it, add(value) adds to it",
}
"""The use of each kind of state."""
_STATE_CALL = re.compile(rf"({'|'.join(_STATES)})\.(\w+)\(\) (?:takes|missing|got)")
_OF_STATES = {"value", "update", "add", "get", "clear"}
_IN_CONTEXT = {f"get_{kind}state" for kind in ("", "list_", "map_", "reducing_", "aggregating_")} | {
    "get_metrics_group"
}
_ADDITIONS = {
    "append": "add",
    "extend": "add_all",
    "set": "update",
    "pop": "remove",
    "setdefault": "put",
    "read": "value",
}


class Several:
    """Checks results of which there may be several, and warns once of a tuple or ``Row`` that looks like one record.

    >>> from funken import Row
    >>> found = []
    >>> check = Several(lambda kind, text: found.append(text))
    >>> check(("a", "b")), check(("to", 1)), check(Row("be")), len(found)
    (None, None, None, 1)
    """

    __slots__ = ("_left", "_warn")

    def __init__(self, warn: Callable[[str, str], None]) -> None:
        self._warn = warn
        self._left = _LOOKED_AT

    def __call__(self, made: Any) -> None:
        """Raise ``TypeError`` for one record that would be taken apart; a ``Row`` is, as in PyFlink."""
        kind = type(made)
        if kind is not tuple and kind is not Row:
            check_several(made)
        elif self._left:
            self._left -= 1
            if kind is Row or len(set(map(type, made))) > 1:
                self._left = 0
                results = "1 result" if len(made) == 1 else f"{len(made)} results"
                self._warn(
                    "tuples",
                    f"its function returned the {kind.__name__} {made!r:.60}, which is taken for {results}. Return it in a list, "
                    "[...], or yield it, if it is one record.",
                )


class MissingResults:
    """Watches the first results of a map, block by block."""

    def __init__(self, warn: Callable[[str, str], None]) -> None:
        self._warn = warn
        self._count = 0

    def goes_on(self, results: Sequence[Any]) -> bool:
        """Look at the results of a block; return False if there is nothing more to watch."""
        if results and type(results[0]) in _NO_RECORDS:
            kind = type(results[0])
            raise TypeError(
                f"the function of a map returned a {kind.__name__}, which is no record. {_NO_RECORDS[kind]}"
            )
        if any(result is not None for result in results):
            return False
        self._count += len(results)
        if self._count < RECORDS:
            return True
        self._warn(KIND, f"its function has returned None for each of its first {self._count:,} records. {_REMEDY}")
        return False


# ---- The traits of an operator: all that plan rules and the runtime may know of it, declared by its spec.
#
# Nobody outside the operators asks for the type of a spec: a spec that wraps another one (``SpecWrapper``) would
# hide it. A spec declares traits by a property ``traits``; one that has none has the defaults, and the coordinator
# that its method ``coordinator(context)`` makes.


MakeCoordinator = Callable[[OperatorCoordinatorContext], OperatorCoordinator]


class BatchInput(enum.Enum):
    """The order in which a keyed operator gets its records in ``BATCH`` (Flink's ``InputRequirement``)."""

    SORTED = "key after key, each in the order of time"
    SORTED_BY_TIME = "each key in the order of time"
    """For an operator that emits at the end of the input only: keys need not take turns where there are no timestamps."""
    ANY_ORDER = "in the order of arrival"


@dataclass(frozen=True)
class LoopCall:
    """A function that a generated loop calls per record, or holds the body of; ``label`` ``None``: the operator's name."""

    function: UserFunction
    arguments: int = 1
    label: str | None = None


@dataclass(frozen=True)
class OperatorTraits:
    """The properties of an operator that are known without its class.

    >>> OperatorTraits().bounded, OperatorTraits().keys, OperatorTraits().fusable
    (True, (), False)
    """

    source: Source | None = None
    """The connector of a source."""
    sink: bool = False
    folder: str | None = None
    """The folder that a sink of files writes to."""
    commits: bool = False
    """True for a sink whose output is visible after a checkpoint only."""
    coordinator: MakeCoordinator | None = None
    keys: tuple[UserFunction | None, ...] = ()
    """The key selectors of the inputs of a keyed operator; ``None``: that input is not keyed."""
    batch_input: BatchInput = BatchInput.SORTED
    logic: str | None = None
    """The logic that runs the operator, where the spec chooses among several."""
    in_keyed_state: Callable[[], OperatorSpec] | None = None
    """Makes the same operator with all its state in keyed state; ``None``: it has no other state that grows."""
    columnar: bool = False
    """True if the operator takes columns."""
    loop: tuple[LoopCall, ...] = ()
    """The functions of the operator's generated loop."""
    calls: tuple[LoopCall, ...] | None = None
    """All functions of the program that the operator calls, if it waits for nothing beside them; ``None``: that is not known."""
    fusable: bool = False
    """True if the loop may be one with those of its neighbours: the logic is a map, a filter or a flat_map."""
    catching: Callable[[], OperatorSpec] | None = field(default=None, compare=False)
    """Makes the same operator so that it handles records whose function raises; ``None``: it has no function per record."""
    side_functions: tuple[UserFunction, ...] | None = None
    """The functions that write to side outputs; ``None``: that is not known."""
    event_time_windows: bool = False
    """True if windows end by event time."""
    lengths: tuple[tuple[str, int], ...] = ()
    """Lengths of event time (ms), each behind the beginning of a sentence on it, such as "its windows last"."""
    late_tag: str | None = None
    """The side output of late records."""
    fields_read: tuple[int, ...] | None = None
    """The numbers of the fields of a source's records that are read, if that cannot change while the job runs."""
    output_type: TypeInformation | None = None
    """The declared type of the results, where the operator itself sees to it."""
    keeps_type: bool = False
    """True if the results are of the type of the input."""
    loop_head: bool = False
    """True if records come back to the operator: it is the head of a loop."""
    stays_with_input: bool = False
    """True if the operator has the parallelism of its input by default: the order of records matters to it."""

    @property
    def bounded(self) -> bool:
        """True if the operator ends by itself: it is no source, or a bounded one."""
        return self.source is None or self.source.boundedness is Boundedness.BOUNDED

    def but(self, **changes: object) -> OperatorTraits:
        """Return these traits with some that differ.

        ``dataclasses.replace`` takes 14 us, this 2.6; a plan of five operators asks 70 times.

        >>> OperatorTraits(keeps_type=True).but(columnar=True) == OperatorTraits(keeps_type=True, columnar=True)
        True
        """
        if not vars(self).keys() >= changes.keys():
            raise TypeError(f"OperatorTraits has no {', '.join(changes.keys() - vars(self).keys())}")
        made = object.__new__(OperatorTraits)
        vars(made).update(vars(self), **changes)
        return made


_NO_TRAITS = OperatorTraits()


def traits_of(spec: object) -> OperatorTraits:
    """Return the traits that a spec declares, or the defaults."""
    declared = getattr(spec, "traits", None)
    traits = declared if isinstance(declared, OperatorTraits) else _NO_TRAITS
    coordinator: MakeCoordinator | None = getattr(spec, "coordinator", None)
    return traits if coordinator is None else traits.but(coordinator=coordinator)


@dataclass(frozen=True)
class SpecWrapper:
    """Base of a spec that holds another one, and has its traits."""

    spec: OperatorSpec

    @property
    def traits(self) -> OperatorTraits:
        """The traits of the spec it holds."""
        return traits_of(self.spec)


# ---- The results of user functions, separated into main and side outputs and emitted once per block.
#
# A function returns ``None`` or an iterable. Of what it gives, a tuple whose first item is an ``OutputTag`` goes to the
# side output of that name; everything else, also any other tuple, goes to the main output. Records that can be changed are
# copied at once: the function may keep them, in state for example, and change them before the block goes out.


def shared(record: Any) -> Any:
    """Return the record itself: with object reuse nothing is copied."""
    return record


class Results:
    """The results of one block so far: values and their timestamps, ``MIN_TIMESTAMP`` for none.

    Hot loops append to ``values`` and ``stamps`` themselves what cannot be changed; ``emit`` replaces both lists by new
    ones. ``own`` and ``own_block`` return records that nobody else has.
    """

    __slots__ = ("_sides", "check", "own", "own_block", "stamps", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.stamps: list[int] = []
        self.own: Callable[[Any], Any] = copied
        self.own_block: Callable[[list[Any]], list[Any]] = copied_block
        self.check: Callable[[Any], None] = check_several
        self._sides: dict[str, tuple[list[Any], list[int]]] = {}

    def configure(self, context: OperatorContext) -> None:
        """Share records with the function where the program says so."""
        self.check = Several(context.warn)
        if context.object_reuse:
            self.own = self.own_block = shared

    def take(self, made: Iterable[Any] | None, at: int) -> None:
        """Take a function's results for a record or timer."""
        if made is None:
            return
        if type(made) is not list and type(made) is not GeneratorType:
            self.check(made)
        for result in made:
            self.add(result, at)

    def add(self, result: Any, at: int) -> None:
        """Take one result, for the main output or a side output."""
        if isinstance(result, tuple) and result and isinstance(result[0], OutputTag):
            self.side(result, at)
        else:
            self.values.append(self.own(result))
            self.stamps.append(at)

    def side(self, pair: tuple[Any, ...], at: int) -> None:
        """Take a pair of tag and value."""
        tag, value = pair
        try:
            side = self._sides.get(tag.tag_id)
        except AttributeError:
            raise TypeError(
                f"ctx.output() needs an OutputTag, but got {tag!r:.60}. Give OutputTag({tag!r:.60})."
            ) from None
        if side is None:
            side = self._sides[tag.tag_id] = ([], [])
        side[0].append(self.own(value))
        side[1].append(at)

    @property
    def stamped(self) -> bool:
        """True if one of the results has a timestamp."""
        blocks = (self.stamps, *(side[1] for side in self._sides.values()))
        return any(
            stamps[0] != MIN_TIMESTAMP or stamps.count(MIN_TIMESTAMP) < len(stamps) for stamps in blocks if stamps
        )

    def emit(self, output: Output, *, stamped: bool) -> None:
        """Send everything on, without timestamps if none of the results has one (``stamped`` is false)."""
        if self.values:
            values, stamps = self.values, self.stamps
            self.values, self.stamps = [], []
            output.emit(values, stamps if stamped else None)
        if self._sides:
            sides, self._sides = self._sides, {}
            for tag_id, (values, stamps) in sides.items():
                output.emit_side(tag_id, values, stamps if stamped else None)


# ---- How many records an operator processes before it reads the clock again.
#
# A stride takes about 1 ms at the pace of the one before it, or doubles; a first one is a single record. So between
# two looks at the clock there is 1 ms or one record, whatever is longer, as long as the pace does not change.


FEW = 64
"""The longest stride while a timer is registered: it may fire so many records late, when slow ones follow fast ones."""

MANY = 1 << 20
"""The longest stride while no timer is registered."""

_MILLIS = 1


class Stride:
    """The length of the next stride.

    >>> stride = Stride()
    >>> lengths = []
    >>> for _ in range(6):
    ...     lengths.append(stride.records)
    ...     stride.took(stride.records, 0, FEW)
    >>> lengths, stride.took(16, 4, FEW), stride.records, stride.took(4, 40_000, FEW), stride.records
    ([1, 2, 4, 8, 16, 32], None, 4, None, 1)
    """

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records = 1

    def took(self, records: int, millis: int, most: int) -> None:
        """Follow a stride of so many records that took so many ms."""
        if millis > _MILLIS:
            self.records = max(1, records * _MILLIS // millis)
        elif records == self.records:
            self.records *= 2
        self.records = min(self.records, most)


class TaskTime:
    """The processing time of a task: ``latest`` is the last result of ``read``, for frequent uses within a stride."""

    __slots__ = ("_now", "latest")

    def __init__(self, clock: Clock) -> None:
        self._now: Callable[[], int] = clock.now
        self.latest = self._now()

    def read(self) -> int:
        """Read the clock (ms since the epoch)."""
        self.latest = now = self._now()
        return now
