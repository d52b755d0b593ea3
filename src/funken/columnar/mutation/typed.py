"""Changed records, once their schemas are known: as the tuples of their fields that they are to kernels."""

from __future__ import annotations

from collections.abc import Callable

from funken.columnar.expressions import Expression, Make, MakeRecord, NotVectorizable, Unpacked
from funken.columnar.mutation.names import CHANGED, SET, UPDATED, WITHOUT
from funken.columnar.records import is_inherited
from funken.columnar.typed.values import Typed, after, project
from funken.expr.types import DATACLASS, DICT, DOCUMENT, NAMED_TUPLE, ROW, Record

REPLACE, REPLACE_TUPLE = "replace", "_replace"
"""Forms of a ``MakeRecord`` that is another one with some fields replaced."""
CHANGES = (CHANGED, UPDATED, SET, WITHOUT, REPLACE, REPLACE_TUPLE)
_Of = Callable[[Expression], Typed]
_FORMS = {CHANGED: (DICT, DOCUMENT, ROW), UPDATED: (DICT, DOCUMENT), SET: (DATACLASS, ROW), WITHOUT: (DICT,)}
_GROWING = (DICT, DOCUMENT)


def changed_record(made: MakeRecord, of: _Of) -> Typed:
    """Return a record after a change, or a new one with some fields replaced; raise ``NotVectorizable``."""
    if made.form in (REPLACE, REPLACE_TUPLE):
        return _replaced(made, of)
    last = made.items[-1]
    assert isinstance(last, Unpacked)
    # What is assigned is evaluated first.
    new = [(name, of(each.record if isinstance(each, Unpacked) else each)) for name, each in _parts(made)]
    old, schema = of(last.record)
    if not isinstance(schema, Record) or schema.form not in _FORMS[made.form]:
        raise NotVectorizable(f"changes {schema}")
    fields = {name: project((old, schema), number) for number, name in enumerate(schema.names)}
    before = [old, *(each for each, _ in fields.values())] if made.form == WITHOUT else [old]
    if made.form == WITHOUT:
        _take_out(made, fields, schema)
    for name, (value, kind) in new:
        if name is not None:
            _assign(fields, name, (value, kind), schema)
            continue
        if not isinstance(kind, Record) or kind.form != DICT:
            raise NotVectorizable(f"updates a dict with {kind}")
        before.append(value)
        for number, each in enumerate(kind.names):
            _assign(fields, each, project((value, kind), number), schema)
    # The class stores attributes, and does no more.
    if schema.form == DATACLASS and getattr(schema.cls, "__dataclass_params__").frozen:  # noqa: B009 - not declared
        raise NotVectorizable(f"changes a {schema}, which is frozen")
    items, schemas = zip(*fields.values(), strict=True) if fields else ((), ())
    return after(before, Make(items)), Record(schemas, schema.form, tuple(fields), schema.cls)


def _parts(made: MakeRecord) -> list[tuple[str | None, Expression]]:
    return [] if made.form == WITHOUT else list(zip(made.names[:-1], made.items[:-1], strict=True))


def _assign(fields: dict[str, Typed], name: str, value: Typed, schema: Record) -> None:
    if (name not in fields and schema.form not in _GROWING) or (schema.form == ROW and name.startswith("_")):
        raise NotVectorizable(f"sets {name!r}, which {schema} has not")
    fields[name] = value


def _take_out(made: MakeRecord, fields: dict[str, Typed], schema: Record) -> None:
    """Take an item out; that it is there is required, unless there is a default."""
    name, *default = made.names
    if name not in fields and not default:
        raise NotVectorizable(f"takes {name!r} out of {schema}")
    fields.pop(str(name), None)


def _replaced(made: MakeRecord, of: _Of) -> Typed:
    first, *others = made.items
    assert isinstance(first, Unpacked)
    old, schema = found = of(first.record)
    wanted = DATACLASS if made.form == REPLACE else NAMED_TUPLE
    if not isinstance(schema, Record) or schema.form != wanted:
        raise NotVectorizable(f"replaces fields of {schema}")
    if wanted == NAMED_TUPLE and not is_inherited(schema.cls, REPLACE_TUPLE):
        raise NotVectorizable("replaces fields")
    new = {str(name): of(each) for name, each in zip(made.names[1:], others, strict=True)}
    if any(name not in schema.names for name in new):
        raise NotVectorizable(f"replaces a field that {schema} has not")
    items = [new.get(name) or project(found, index) for index, name in enumerate(schema.names)]
    result = Make(tuple(each for each, _ in items))
    return after([old], result), Record((each for _, each in items), schema.form, schema.names, schema.cls)


__all__ = ["CHANGES", "REPLACE", "REPLACE_TUPLE", "changed_record"]
