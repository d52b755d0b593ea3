"""Operators with a declared type on columns: the schema of their results, and running results that wrap as they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from funken.columnar.declared import EXTREME, FIRST, ORDERED, SUM, Conversion, Fold, How, conversion_of, reduce_folds
from funken.columnar.expressions import Argument, Constant, NotVectorizable
from funken.columnar.tracing import Traced
from funken.expr.types import INT, Atomic, Type, atomic_fields
from funken.ids import OperatorId
from funken.operators.user_functions import UserFunction, traits_of
from funken.operators.wrappers import declared_of
from funken.plan.nodes import Node
from funken.types.info import TypeInformation


def declared_schema(node: Node, schema: Type | None) -> Type | None:
    """Return the schema of an operator's results behind its declared type, if it has one; raise ``NotVectorizable``."""
    if schema is None or node.output_type is None:
        return schema
    return conversion_of(schema, node.output_type).schema


def type_made(node: Node, nodes: Mapping[OperatorId, Node]) -> TypeInformation | None:
    """Return the declared type to which the records that an operator emits were converted; ``None``: to none."""
    if node.output_type is not None or not node.inputs or not traits_of(node.spec).keeps_type:
        return node.output_type
    return type_given(node, nodes)


def type_given(node: Node, nodes: Mapping[OperatorId, Node]) -> TypeInformation | None:
    """Return the declared type to which an operator's input records were converted; ``None``: to none."""
    if any(each.side is not None for each in node.inputs):
        return None
    types = [type_made(nodes[each.upstream], nodes) for each in node.inputs]
    return types[0] if types and all(each == types[0] for each in types) else None


def declared_folds(call: UserFunction, schema: Type, given: TypeInformation | None) -> tuple[Traced, tuple[Fold, ...]]:
    """Return the aggregates of a reduce function, whose results may have a declared type; raise ``NotVectorizable``.

    ``given`` is the declared type of the records. Sums wrap once per block, not with every record: it comes to the same.
    """
    function, type_info = declared_of(call)
    traced, folds = reduce_folds(function.target, function.method, schema, type_info)
    if type_info is None:
        return traced, folds
    made = conversion_of(schema, type_info)
    if made.schema != schema:
        raise NotVectorizable(f"declares {type_info!r} for records that are not of that type")
    narrow = {
        path: leaf
        for (path, _), leaf in zip(atomic_fields(schema), made.leaves, strict=True)
        if leaf.how is not How.SAME
    }
    if narrow and given != type_info:
        raise NotVectorizable(f"declares {type_info!r} for records that were not converted to that type")
    widths = _widths(schema, made)
    return traced, tuple(
        _narrowed(fold, path, widths) if path in narrow else fold for fold, path in zip(folds, widths, strict=True)
    )


def _widths(schema: Type, made: Conversion) -> dict[tuple[int, ...], tuple[Atomic, int]]:
    """Return the type of each field, and the number of bits of its values."""
    leaves = zip(atomic_fields(schema), made.leaves, strict=True)
    return {path: (kind, 32 if leaf.how is How.ROUND else leaf.bits) for (path, kind), leaf in leaves}


def _narrowed(fold: Fold, path: tuple[int, ...], widths: Mapping[tuple[int, ...], tuple[Atomic, int]]) -> Fold:
    """Return an aggregate of a field of few bits; raise ``NotVectorizable`` if its results may exceed them."""
    kind, bits = widths[path]
    if fold.how == FIRST or fold.how in EXTREME or fold.how in ORDERED:
        return fold
    if fold.how == SUM and kind == INT:
        return replace(fold, bits=bits)
    of: Any = fold.of
    alike = isinstance(of, Argument) and of.path in widths and widths[of.path][0] == kind and widths[of.path][1] <= bits
    small = isinstance(of, Constant) and type(of.value) is int and -1 << (bits - 1) <= of.value < 1 << (bits - 1)
    if fold.how != SUM and (alike or small):
        return fold
    what = "adds" if fold.how == SUM else "computes"
    raise NotVectorizable(f"{what} {kind}s of {bits} bits for the result so far")
