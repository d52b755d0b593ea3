"""Methods of dicts, named tuples and rows, once their fields are known."""

from __future__ import annotations

from collections.abc import Callable

from funken.columnar.expressions import Constant, Expression, NotVectorizable
from funken.columnar.records import is_inherited
from funken.columnar.typed import values as fields
from funken.columnar.typed.values import Typed, after
from funken.expr.types import DICT, DOCUMENT, NAMED_TUPLE, NONE, ROW, Record

_Of = Callable[[Expression], Typed]


def method_of_record(name: str, found: Typed, given: tuple[Expression, ...], of: _Of) -> Typed:
    """Return a call of a method of a record with named fields; raise ``NotVectorizable``."""
    schema = found[1]
    assert isinstance(schema, Record)
    if name == "get" and schema.form in (DICT, DOCUMENT) and len(given) in (1, 2):
        key = given[0].value if isinstance(given[0], Constant) else None
        default: Typed = of(given[1]) if len(given) == 2 else (Constant(None), NONE)
        if type(key) is str:
            position = schema.position(key)
            if position is None and schema.form == DOCUMENT:
                raise NotVectorizable(f"calls get({key!r}), which some documents may have")
            if position is None:
                return after([found[0]], default[0]), default[1]
            made, kind = fields.project(found, position)
            return after([found[0], default[0]], made), kind
    if name == "copy" and not given and schema.form == DICT:
        return found
    if name == "_asdict" and not given and is_inherited(schema.cls or dict, name):
        return fields.as_dict(found, NAMED_TUPLE)
    if name == "as_dict" and not given:
        return fields.as_dict(found, ROW)
    raise NotVectorizable(f"calls the method {name}() of {schema}")


__all__ = ["method_of_record"]
