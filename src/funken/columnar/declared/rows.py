"""Rows without names in a function whose results have a declared type: the type names their fields, or makes them tuples.

``Row(1, 2)`` is no record that columns have a schema for. But where it is a result, the type makes of it what it makes of a
row with its names, or of a tuple.
"""

from __future__ import annotations

from dataclasses import replace

from funken.columnar.declared.states import named
from funken.columnar.flat_maps.emissions import TracedFlatMap
from funken.columnar.tracing import Traced
from funken.types.info import TypeInformation


def named_rows(traced: Traced, type_info: TypeInformation | None) -> Traced:
    """Return a function with rows that have names, as far as their type says them.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.tracing import trace
    >>> from funken.types import Row, Types
    >>> traced = trace(lambda pair: Row(pair[1], 1), None, 1)
    >>> named_rows(traced, Types.ROW([Types.STRING(), Types.INT()])).typed(Tuple((INT, STR)))[1]
    Row(f0: str, f1: int)
    """
    return traced if type_info is None else replace(traced, result=named(traced.result, type_info))


def named_rows_of_all(traced: TracedFlatMap, type_info: TypeInformation | None) -> TracedFlatMap:
    """Return a function that gives any number of results, in the same way; side outputs have types of their own."""
    if type_info is None:
        return traced
    emissions = (
        each if each.side is not None else replace(each, result=named(each.result, type_info))
        for each in traced.emissions
    )
    return replace(traced, emissions=tuple(emissions))


__all__ = ["named_rows", "named_rows_of_all"]
