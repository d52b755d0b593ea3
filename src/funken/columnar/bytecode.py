"""The bytecode of a function as one small instruction set, the same for every version of Python that is known.

The only module that knows versions: it refuses one that is not in ``VERSIONS``, leaves out what only concerns the
interpreter, and takes apart instructions that do several things at once. What reads functions (``tracing.py``, and
``operators/codegen.py`` for generated loops) interprets these operations, and refuses those it does not know.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from types import CodeType
from typing import Any

from funken.dataclass import dataclass

VERSIONS = {(3, 11), (3, 12), (3, 13)}

_REFUSED_FLAGS = (
    inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
)  # fmt: skip
_IGNORED = {"RESUME", "NOP", "CACHE", "PRECALL", "COPY_FREE_VARS", "EXTENDED_ARG"}
_PAIRS = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
_FORMATS = {"FORMAT_SIMPLE": (0, False), "FORMAT_WITH_SPEC": (0, True)}
_BY_NUMBER = {"CONTAINS_OP", "IS_OP", "COPY", "SWAP", "CONVERT_VALUE", "CALL", "CALL_KW", "CALL_INTRINSIC_1"}


class UnknownBytecode(Exception):
    """The version of Python is not known; the message names it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on the stack.

    The arguments that are not those of ``dis``:

    ``LOAD_CONST value``, ``KW_NAMES names``, ``LOAD_FAST name``, ``LOAD_GLOBAL name``, ``LOAD_METHOD name``, ``LOAD_ATTR name``,
    ``BINARY_OP symbol``, ``COMPARE_OP symbol``, ``CALL count``, ``FORMAT (conversion, has a format spec)``, and jumps, whose
    argument is the number of the operation. ``calls`` of a ``LOAD_GLOBAL``: what it loads is called; a ``PUSH_NULL`` precedes it.
    """

    name: str
    argument: Any = None
    calls: bool = False


_GENERATORS = inspect.CO_GENERATOR | inspect.CO_ITERABLE_COROUTINE


@lru_cache(128)
def instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    """Return the instructions of a function; several readers look at each function of a plan."""
    return tuple(dis.get_instructions(code))


def is_generator(code: CodeType) -> bool:
    """Return True if a function yields."""
    return bool(code.co_flags & _GENERATORS)


def is_plain_generator(code: CodeType) -> bool:
    """Return True if a function is one that is followed, or would be if it did not yield."""
    return is_followed(code.replace(co_flags=code.co_flags & ~_GENERATORS))


def is_followed(code: CodeType) -> bool:
    """Return True if a function is plain, but for its handlers of exceptions.

    Where nothing is raised, nothing of a handler runs. Where something is, the kernels do not know the result: the block goes to
    the function itself, with its handlers.
    """
    return is_plain(code.replace(co_exceptiontable=b""))


def catches(code: CodeType) -> bool:
    """Return True if a function has a ``try``; the cleanup after comprehensions and generators is none."""
    return any(each.opname == "PUSH_EXC_INFO" for each in instructions(code))


def is_plain(code: CodeType) -> bool:
    """Return True if a function has positional arguments only, handles no exceptions, and is no coroutine."""
    return not (code.co_flags & _REFUSED_FLAGS or code.co_kwonlyargcount or code.co_exceptiontable)


def operations(code: CodeType) -> list[Operation]:
    """Return the operations of a function; raise ``UnknownBytecode`` if this Python is not known.

    >>> def half(n):
    ...     return n / 2
    >>> [(each.name, each.argument) for each in operations(half.__code__)]
    [('LOAD_FAST', 'n'), ('LOAD_CONST', 2), ('BINARY_OP', '/'), ('RETURN_VALUE', None)]
    """
    if sys.version_info[:2] not in VERSIONS:
        raise UnknownBytecode(f"the bytecode of Python {sys.version_info[0]}.{sys.version_info[1]} is not known")
    found: list[Operation] = []
    number_at: dict[int, int] = {}
    jumps: list[int] = []
    for instruction in instructions(code):
        number_at[instruction.offset] = len(found)
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            jumps.append(len(found))
        found += _parts(instruction, code)
    for number in jumps:
        jump = found[number]
        name = jump.name.replace("_FORWARD", "") if jump.name != "JUMP_FORWARD" else "JUMP"
        found[number] = Operation(name, number_at[jump.argument])
    return found


def returns_only_none(code: CodeType) -> bool:
    """Return True if each ``return`` of a function returns the constant ``None``, and it has one.

    >>> returns_only_none((lambda n: None).__code__), returns_only_none((lambda n: n).__code__)
    (True, False)
    """
    found = False
    before: dis.Instruction | None = None
    for step in instructions(code):
        if step.opname in ("RETURN_VALUE", "RETURN_CONST"):
            made = step if step.opname == "RETURN_CONST" else before
            if made is None or made.opname not in ("LOAD_CONST", "RETURN_CONST") or made.argval is not None:
                return False
            found = True
        before = step
    return found


def returns_call(code: CodeType, function: str) -> bool:
    """Return True if a function is one call of a global function, whose result it returns.

    >>> returns_call((lambda n: print("n", n + 1)).__code__, "print"), returns_call((lambda n: print(n) or n).__code__, "print")
    (True, False)
    """
    found = [step for step in instructions(code) if step.opname not in _PROLOGUE]
    calls = len(found) > 2 and found[-1].opname == "RETURN_VALUE" and found[-2].opname.startswith("CALL")
    return calls and found[0].opname == "LOAD_GLOBAL" and found[0].argval == function


_PROLOGUE = {"RESUME", "PUSH_NULL", "COPY_FREE_VARS", "MAKE_CELL", "CACHE", "NOP"}


def positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    """Return the place of each operation of a function in its file: first and last line, first and last column."""
    found: list[tuple[int | None, int | None, int | None, int | None]] = []
    for at in instructions(code):
        place = at.positions or dis.Positions()
        found += [(place.lineno, place.end_lineno, place.col_offset, place.end_col_offset)] * len(_parts(at, code))
    return found


def _parts(at: dis.Instruction, code: CodeType) -> list[Operation]:
    """Return the effect of an instruction, as operations."""
    name, flag = at.opname, bool((at.arg or 0) & 1)
    if name in _IGNORED:
        return []
    if name in _PAIRS:
        return [Operation(part, variable) for part, variable in zip(_PAIRS[name], at.argval, strict=True)]
    if name in _FORMATS:
        return [Operation("FORMAT", _FORMATS[name])]
    match name:
        case "RETURN_CONST":
            return [Operation("LOAD_CONST", at.argval), Operation("RETURN_VALUE")]
        case "LOAD_FAST_CHECK":
            return [Operation("LOAD_FAST", at.argval)]
        case "LOAD_GLOBAL":
            load = Operation(name, at.argval, calls=flag)
            return [Operation("PUSH_NULL"), load] if flag else [load]
        case "LOAD_ATTR" if sys.version_info >= (3, 12) and flag:
            return [Operation("LOAD_METHOD", at.argval)]
        case "KW_NAMES":  # dis of 3.11 does not know what it names
            return [Operation(name, code.co_consts[at.arg or 0])]
        case "BINARY_OP":
            return [Operation(name, at.argrepr)]
        case "FORMAT_VALUE":
            return [Operation("FORMAT", ((at.arg or 0) & 3, bool((at.arg or 0) & 4)))]
    return [Operation(name, at.arg if name in _BY_NUMBER else at.argval)]


_ASSIGNS = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"}
_LOADS = {"LOAD_GLOBAL", "LOAD_DEREF", "LOAD_ATTR", "LOAD_METHOD", "LOAD_CLASSDEREF", "LOAD_NAME"}
_CHANGING = {
    "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort",
    "update", "__setitem__", "__delitem__", "difference_update", "intersection_update", "symmetric_difference_update",
}  # fmt: skip


def constants_behind(code: CodeType, name: str) -> list[Any] | None:
    """Return the constant behind each use of a name, else ``None``; ``None`` for code that imports.

    >>> constants_behind((lambda: (Tag("late"), Tag(name))).__code__, "Tag")
    ['late', None]
    """
    steps = [step for step in instructions(code) if step.opname not in ("PUSH_NULL", "PRECALL", "CACHE")]
    if any(step.opname == "IMPORT_NAME" for step in steps):
        return None
    return [
        following.argval if following.opname == "LOAD_CONST" else None
        for step, following in pairwise(steps)
        if step.argval == name and step.opname.startswith("LOAD")
    ]


def names_changed(code: CodeType) -> tuple[set[str], set[str]]:
    """Return the names that a function assigns outside of itself, and the names of objects that it changes in place.

    Attributes of the first argument are left out: that is the object that a method is of.

    >>> def count(table, key):
    ...     rates.total = 1
    ...     words.append(key)
    >>> names_changed(count.__code__)
    ({'total'}, {'words'})
    """
    own = code.co_varnames[0] if code.co_argcount else None
    assigned, changed = set[str](), set[str]()
    found = instructions(code)
    for number, each in enumerate(found):
        before = found[number - 1] if number else None
        of_self = before is not None and before.opname == "LOAD_FAST" and before.argval == own
        if each.opname in _ASSIGNS or (each.opname in ("STORE_ATTR", "DELETE_ATTR") and not of_self):
            assigned.add(str(each.argval))
        holder = None
        if each.opname in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            holder = _container(found, number)
        elif each.opname in ("LOAD_METHOD", "LOAD_ATTR") and each.argval in _CHANGING:
            holder = before
        if holder is not None and holder.opname in _LOADS:
            changed.add(str(holder.argval))
    return assigned, changed


def dropped_texts(code: CodeType) -> Iterator[tuple[str, int]]:
    """Yield the methods of texts whose result is dropped, with their lines.

    >>> def parse(line):
    ...     line.strip()
    ...     line.replace(",", ".")
    ...     return float(line.lower())
    >>> [name for name, _ in dropped_texts(parse.__code__)]
    ['strip', 'replace']
    """
    found = [each for each in instructions(code) if each.opname not in ("PRECALL", "CACHE", "PUSH_NULL")]
    for number, step in enumerate(found, 1):
        texts = _OF_TEXTS.get(step.argval, -1) if step.opname in ("LOAD_METHOD", "LOAD_ATTR") else -1
        given, called = found[number : number + texts], found[number + texts : number + texts + 2]
        of_texts = texts >= 0 and all(each.opname == "LOAD_CONST" and type(each.argval) is str for each in given)
        if of_texts and [each.opname for each in called] == ["CALL", "POP_TOP"]:
            yield step.argval, (step.positions.lineno if step.positions else None) or code.co_firstlineno


_OF_TEXTS = {
    **dict.fromkeys(("strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize", "casefold", "swapcase"), 0),
    "replace": 2,
}
"""Methods of texts, and with how many constant texts they are called."""


def spreads(code: CodeType, offset: int) -> bool:
    """Return True if the call at an offset spreads a collection, as ``union(*streams)`` does."""
    return dis.opname[code.co_code[offset]] == "CALL_FUNCTION_EX"


def gives_conditions(code: CodeType) -> bool:
    """Return True if each result of a function is the outcome of a comparison, or a constant: so it is no text.

    >>> gives_conditions((lambda n: n > 1).__code__), gives_conditions((lambda word: word.strip()).__code__)
    (True, False)
    """
    before = None
    for step in instructions(code):
        if step.opname == "COPY" or step.opname.endswith("_OR_POP"):
            return False  # "and", "or"
        if step.opname == "RETURN_VALUE" and (before is None or before.opname not in _CONDITIONS):
            return False
        if step.opname == "RETURN_CONST" and not isinstance(step.argval, bool | None):
            return False
        before = step
    return True


_CONDITIONS = ("COMPARE_OP", "CONTAINS_OP", "IS_OP", "UNARY_NOT")


def _container(found: Sequence[dis.Instruction], number: int) -> dis.Instruction | None:
    """Return the last instruction of the container in which an item is set or deleted, before those of the key."""
    depth = 0
    for at in range(number - 1, 0, -1):
        each = found[at]
        depth += dis.stack_effect(each.opcode, each.arg if each.opcode >= dis.HAVE_ARGUMENT else None, jump=False)
        if depth == 1:
            return found[at - 1]
    return None


def goes_on(code: CodeType, offset: int) -> bool:
    """Return True if an instruction decides where a function goes on, by a truth or by the next item of a loop."""
    return dis.opname[code.co_code[offset]].startswith(("POP_JUMP", "FOR_ITER"))


def always_raises(found: list[Operation], number: int) -> bool:
    """Return True if the code from an operation on, to the next jump, ends with an exception that is raised.

    >>> def checked(n):
    ...     raise ValueError(n)
    >>> always_raises(operations(checked.__code__), 0), always_raises(operations((lambda n: n).__code__), 0)
    (True, False)
    """
    for each in found[number:]:
        if each.name == "RAISE_VARARGS":
            return bool(each.argument)
        if "JUMP" in each.name or each.name in _ENDS:
            return False
    return False


def ends_loops_twice() -> bool:
    """Return True if ``END_FOR`` takes one value off the stack, and a ``POP_TOP`` behind it the iterator."""
    return sys.version_info >= (3, 13)


_ENDS = ("RETURN_VALUE", "YIELD_VALUE", "FOR_ITER", "SEND", "RERAISE")
_REASONS = {
    "STORE_GLOBAL": "changes the global {0!r}",
    "STORE_DEREF": "changes the variable {0!r} of an enclosing function",
    "STORE_ATTR": "changes the attribute {0!r}",
    "STORE_SUBSCR": "changes an item",
    "MAP_ADD": "makes a dict of items",
    "CALL_FUNCTION_EX": "calls a function with *",
    "RAISE_VARARGS": "raises an exception",
    "LOAD_ASSERTION_ERROR": "asserts",
    "GET_ITER": "has a loop",
    "MAKE_CELL": "has an inner function",
    "SET_FUNCTION_ATTRIBUTE": "has an inner function",
    "IMPORT_NAME": "imports {0}",
}


def reason_of(name: str, value: Any) -> str:
    """Return the reason for which a function with an operation is not followed."""
    return _REASONS.get(name, "uses an operation without a kernel: {1}").format(value, name.lower().replace("_", " "))
