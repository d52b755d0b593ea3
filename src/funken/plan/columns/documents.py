"""Which functions give the documents that ``json.loads`` makes of their argument, and of which fields these are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from funken.columnar.expressions import Expression
from funken.columnar.flat_maps.emissions import TracedFlatMap
from funken.columnar.tracing import Traced
from funken.columnar.typed.samples import Parsed


def gives_documents(traced: Traced | TracedFlatMap) -> bool:
    """Whether the results of a function are such documents.

    >>> from funken.columnar.tracing import trace
    >>> gives_documents(trace(lambda record: record, None, 1))
    False
    """
    if isinstance(traced, Traced):
        return isinstance(traced.result, Parsed)
    return all(isinstance(each.result, Parsed) for each in traced.emissions if each.emits)


def with_fields(traced: Any, wanted: tuple[int, ...]) -> Any:
    """Return a function whose documents have these fields only, by their numbers."""

    def of(part: Expression) -> Expression:
        return replace(part, wanted=wanted) if isinstance(part, Parsed) else part

    if isinstance(traced, Traced):
        return replace(traced, result=of(traced.result))
    return replace(traced, emissions=tuple(each.replaced(of) for each in traced.emissions))


__all__ = ["gives_documents", "with_fields"]
