"""A sink that takes columns, and by what it wants them grouped."""

from __future__ import annotations

from dataclasses import replace
from types import MethodType

from funken.columnar.expressions import NotVectorizable
from funken.columnar.flat_maps.conventions import trace_with_context
from funken.connectors.context import declares
from funken.connectors.sink import Sink
from funken.expr.types import INT, STR, Type
from funken.operators.columnar.specs import ColumnarSink


def columnar_sink(sink: Sink, schema: Type) -> ColumnarSink:
    """Return the spec; raise ``NotVectorizable`` if the groups cannot be computed of columns: the sink needs records then."""
    function = sink.grouped_by if declares(sink, "grouped_by", "writer") else None
    if function is None:
        return ColumnarSink(sink)
    if not isinstance(function, MethodType):
        raise NotVectorizable(f"is grouped by {function!r}, which is no method")
    owner, name = function.__self__, function.__name__
    try:
        found = trace_with_context(owner, name)
        traced, kind = found.traced.typed(schema, INT)
    except NotVectorizable as reason:
        raise NotVectorizable(f"its {type(owner).__qualname__}.{name} {reason}") from None
    if kind != STR:
        raise NotVectorizable(f"its {type(owner).__qualname__}.{name} gives no text")
    return ColumnarSink(sink, replace(found, traced=traced))


__all__ = ["columnar_sink"]
