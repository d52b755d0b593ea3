"""Records that a function changes, as it is read: ``record["total"] = 1``, ``del``, ``pop``, ``update`` and attributes.

An expression never changes. What a function changes becomes another expression, for every variable that has it; who was given the
record before keeps what it was, as with records one by one (``types/copying.py``). So a record is changed only if it is known who
has it: it is the argument of the function, or was made in it, and is in no other record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from funken.columnar.bytecode import Operation
from funken.columnar.calling import Marker, expression_on
from funken.columnar.expressions import (
    Choose,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Listed,
    Loop,
    Make,
    MakeRecord,
    NotVectorizable,
    Sequence,
    Unpacked,
    children,
    nodes_of,
)
from funken.columnar.mutation.names import CHANGED, SET, UPDATED, WITHOUT, text_of
from funken.columnar.stack import Stack

_MAKING = ("BUILD_MAP", "BUILD_CONST_KEY_MAP", "DICT_UPDATE", "CALL", "CALL_KW")
_COPYING = (".copy", ".as_dict", "._asdict")
_METHODS = ("pop", "update")


def is_made(operation: Operation, stack: Stack) -> Expression | None:
    """Return what an operation has just made, if it is a record that nobody else has; ``None`` if it is none."""
    top = stack.top() if operation.name in _MAKING else None
    if operation.name == "DICT_UPDATE":
        top = stack.item(operation.argument)
    made = top.result if isinstance(top, Sequence) else top
    return top if isinstance(made, MakeRecord) or (isinstance(made, Invoke) and made.name in _COPYING) else None


def changed(
    operation: Operation,
    stack: Stack,
    variables: dict[str, Any],
    own: list[Expression],
    given: Iterable[Expression] = (),
) -> Expression | None:
    """Change a record, if that is what an operation does; return the changed record, ``None`` if it does something else.

    That it can be changed is part of what the function does, also if its result does not show the record: it is evaluated.
    ``own`` are the records that the function alone has, ``given`` what it has given to others since.
    """
    before = len(own)
    evaluated = _changed(operation, stack, variables, own)
    if evaluated is not None:
        made = own[before]
        assert isinstance(made, MakeRecord)
        last = made.items[-1]
        parts = _parts(last.record, own) if isinstance(last, Unpacked) else []
        seen: list[set[int]] = [
            set() for _ in parts
        ]  # what is known not to have them: results share most of their parts
        if any(_has(each, part, known) for each in given for part, known in zip(parts, seen, strict=True)):
            raise NotVectorizable("changes a record that it has given")
    return evaluated


def _changed(operation: Operation, stack: Stack, variables: dict[str, Any], own: list[Expression]) -> Expression | None:
    name, argument = operation.name, operation.argument
    if name == "STORE_SUBSCR" and _is_own(stack.item(2), own):
        key, record, value = stack.pop(), stack.pop(), expression_on(stack.pop())
        made = MakeRecord(CHANGED, (_name(key), None), (value, Unpacked(record)))
        _replace(record, made, stack, variables, own)
        return made
    if name == "STORE_ATTR" and _is_own(stack.item(1), own):
        record, value = stack.pop(), expression_on(stack.pop())
        made = MakeRecord(SET, (argument, None), (value, Unpacked(record)))
        _replace(record, made, stack, variables, own)
        return made
    if name == "DELETE_SUBSCR" and _is_own(stack.item(2), own):
        key, record = stack.pop(), stack.pop()
        made = MakeRecord(WITHOUT, (_name(key),), (Unpacked(record),))
        _replace(record, made, stack, variables, own)
        return made
    if name not in ("CALL", "CALL_KW"):
        return None
    count = argument + (name == "CALL_KW")
    method, record = stack.item(count + 2), stack.item(count + 1)
    if not isinstance(method, Marker) or method.kind != "method" or method.name not in _METHODS:
        return None
    return _called(method.name, count, name == "CALL_KW", stack, variables, own) if _is_own(record, own) else None


def _called(
    method: str, count: int, named: bool, stack: Stack, variables: dict[str, Any], own: list[Expression]
) -> Expression:
    names = stack.keywords(named)
    given = [expression_on(stack.pop()) for _ in range(count - named)][::-1]
    record = stack.pop()
    stack.discard()
    if method == "update":
        unnamed = len(given) - len(names)
        if unnamed > 1:
            raise NotVectorizable("calls update() in another way")
        parts = (*(Unpacked(each) for each in given[:unnamed]), *given[unnamed:])
        if not parts:
            raise NotVectorizable("calls update() with nothing")
        made = MakeRecord(UPDATED, (*([None] * unnamed), *names, None), (*parts, Unpacked(record)))
        result: Expression = Constant(None)
    else:
        if names or len(given) not in (1, 2):
            raise NotVectorizable("calls pop() in another way")
        key = _name(given[0])
        optional = len(given) == 2
        made = MakeRecord(WITHOUT, (key, None) if optional else (key,), (Unpacked(record),) * len(given))
        result = Invoke(".get", (record, given[0], given[1])) if optional else GetItem(record, key)
    _replace(record, made, stack, variables, own)
    stack.push(result)
    return made


def _is_own(found: Any, own: list[Expression]) -> bool:
    return any(found is each for each in own)


def _name(key: Any) -> str:
    name = text_of(key)
    if name is None:
        raise NotVectorizable("changes an item that is no constant text")
    return name


def _replace(
    record: Expression, made: Expression, stack: Stack, variables: dict[str, Any], own: list[Expression]
) -> None:
    """Put the changed record where the record was; raise ``NotVectorizable`` if something else has it, too."""
    own.append(made)
    parts: list[tuple[Expression, set[int]]] = [(part, set()) for part in _parts(record, own)]
    known: dict[int, Any] = {}

    def replaced(found: Any) -> Any:
        if found is record:
            return made
        if id(found) in known:
            return known[id(found)]
        if isinstance(found, Choose) and _is_own(found, own):  # it is the record on some paths
            one, other = replaced(found.then), replaced(found.otherwise)
            if one is not found.then or other is not found.otherwise:
                known[id(found)] = Choose(found.condition, one, other)
                own.append(known[id(found)])
                return own[-1]
        elif any(_has(found, part, seen) for part, seen in parts):
            raise NotVectorizable("changes a record that is in another")
        return found

    for name, found in variables.items():
        variables[name] = replaced(found)
    for depth in range(1, stack.depth() + 1):
        stack.put(depth, replaced(stack.item(depth)))


def _parts(record: Expression, own: list[Expression]) -> list[Expression]:
    """Return a record, and the records that it is one of, where paths have met that have changed it or not."""
    found = [record]
    for each in found:
        if isinstance(each, Choose):
            found += [part for part in (each.then, each.otherwise) if _is_own(part, own)]
    return found


def _has(found: Any, record: Expression, seen: set[int] | None = None) -> bool:
    """Whether something is a record, or has it as an item, or an item of an item; a field that was taken out of it is not it."""
    if found is record:
        return True
    seen = set() if seen is None else seen
    if id(found) in seen:
        return False
    seen.add(id(found))
    if isinstance(found, Marker):
        values = found.value if isinstance(found.value, list | tuple) else [found.value]
        return any(_uses(each, record) for each in values if isinstance(each, Expression | Marker))
    holding: tuple[Any, ...] = ()
    match found:
        case Make(items) | Listed(items):
            holding = items
        case MakeRecord():
            holding = found.items
        case Choose(_, then, otherwise):
            holding = then, otherwise
        case Sequence(_, result) | Loop(result=result):
            holding = (result,)
    if any(each is record for each in holding):
        return True
    # What is computed of the record itself has a copy, a field, or nothing of it.
    inner = children(found) if isinstance(found, Expression) else []
    return any(each is not record and _has(each, record, seen) for each in inner)


def _uses(found: Any, record: Expression) -> bool:
    """Whether something that is evaluated later, or has items, uses a record in any way."""
    if found is record:
        return True
    if isinstance(found, Marker):
        return _has(found, record)
    return any(each is record for each in nodes_of(found))


__all__ = ["changed", "is_made"]
