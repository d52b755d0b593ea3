"""flat_map over columns: each place of the function that gives results is computed for a block, and these are put in order.

Texts that a loop goes over are split for the whole block, lists are columns already; its body is computed for all items at once.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from funken.columnar.block import Block
from funken.columnar.expressions import Constant, Expression, Rowwise
from funken.columnar.flat_maps.emissions import Emission, paths_of
from funken.columnar.kernels.columns import Array, Column, Columns, joined, lists_of
from funken.columnar.kernels.evaluation import ExpressionEvaluation, FallBackToRows
from funken.columnar.kernels.rowwise import flattened, value_of
from funken.columnar.kernels.text import split_by_spaces, split_texts
from funken.expr.types import INT, STR, Tuple, Type, atomic_fields
from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Operator
from funken.operators.columnar.path import ColumnPath, TracedFunction, WatchedPath
from funken.operators.columnar.specs import ColumnarFlatMap, ColumnarMaybeMap, ColumnarProcess
from funken.operators.process.one_input import ProcessLogic, process_call
from funken.operators.stateless import FlatMapLogic, MapLogic


class ColumnarFlatMapLogic(FlatMapLogic):
    """Computes the results of a block at once."""

    columnar = True

    def __init__(self, spec: ColumnarFlatMap) -> None:
        super().__init__(spec.function)
        self._given = WatchedPath(self, _path_of(spec, self), spec.traced.catches, spec.schema)

    def process_block(self, block: Block) -> None:
        """Expand a block."""
        self._given.take(block)


class ColumnarMaybeMapLogic(MapLogic):
    """Computes the results of a block at once, those that are there."""

    columnar = True

    def __init__(self, spec: ColumnarMaybeMap) -> None:
        super().__init__(spec.function)
        self._given = WatchedPath(self, _path_of(spec, self), spec.traced.catches, spec.schema, drops_none=True)

    def process_block(self, block: Block) -> None:
        """Map a block."""
        self._given.take(block)


class ColumnarElementLogic(ProcessLogic):
    """Computes what a process function gives for a block at once."""

    columnar = True

    def __init__(self, spec: ColumnarProcess) -> None:
        super().__init__(spec.function)
        self._traced, self._schema = spec.traced, spec.schema
        parts = [part for each in spec.traced.emissions for part in each.parts()]
        self._asks_time = any(path[:1] != (0,) for path in paths_of(parts, 0))
        called = spec.function if spec.function.method is not None else process_call(spec.function)
        self._path: ColumnPath[list[tuple[str | None, Columns]]] = ColumnPath(
            self._computed, TracedFunction(called, spec.traced), of=self
        )

    def process_block(self, block: Block) -> None:
        """Process a block."""
        found = self._path(block)
        if found is None:
            self.process(*block.rows())
            return
        for side, made in found:
            if made.length and side is None:
                self.output.emit_block(made)
            elif made.length and side is not None:
                self.output.emit_side(side, *made.rows())

    def _computed(self, block: Columns) -> list[tuple[str | None, Columns]]:
        stamps = block.timestamps
        if self._asks_time and (stamps is None or int(stamps.min()) == MIN_TIMESTAMP):
            raise FallBackToRows("a record without a timestamp")
        stamp = Column(INT, None, True) if stamps is None or not self._asks_time else Column(INT, stamps)
        given = Columns(Tuple((block.schema, INT)), [*block.leaves, stamp], block.length, stamps)
        whole = ExpressionEvaluation(given.length, {0: value_of(given)})
        schemas: dict[str | None, Type] = {**dict(self._traced.sides)}
        if self._schema is not None:
            schemas[None] = self._schema
        made: dict[str | None, list[Made | None]] = {side: [] for side in schemas}
        guarded: _Guarded = {}
        with np.errstate(all="ignore"):
            for each in self._traced.emissions:
                found = _computed(each, schemas.get(each.side, INT), whole, guarded)
                if each.emits:
                    made[each.side].append(found)
            return [(side, combined(parts, schemas[side], given)) for side, parts in made.items()]


def _path_of(spec: ColumnarFlatMap | ColumnarMaybeMap, operator: Operator) -> ColumnPath[Columns]:
    emissions, schema = spec.traced.emissions, spec.schema
    functions = [TracedFunction(spec.function, spec.traced), *(TracedFunction(*guard) for guard in spec.guards)]
    return ColumnPath(lambda block: given_of(emissions, schema, block), *functions, of=operator)


def given_of(emissions: tuple[Emission, ...], schema: Type, block: Columns) -> Columns:
    """Return all results for a block, with the timestamps of their records, in order; raises ``FallBackToRows``.

    What several places of the function have in common is computed once: a condition of one is mostly the opposite of another's.
    """
    whole = ExpressionEvaluation(block.length, {0: value_of(block)})
    guarded: _Guarded = {}
    with np.errstate(all="ignore"):
        return combined([_computed(each, schema, whole, guarded) for each in emissions], schema, block)


def combined(parts: list[Made | None], schema: Type, block: Columns) -> Columns:
    """Return the results of several emissions for a block, with the timestamps of their records, in order."""
    made = [each for each in parts if each is not None]
    if not made:
        return Columns(schema, [Column(kind, None, True) for _, kind in atomic_fields(schema)], 0)
    results, origins = joined([each.results for each in made]), np.concatenate([each.origins for each in made])
    if len(made) > 1:
        lengths = [each.results.length for each in made]
        segments = np.repeat([each.segment for each in made], lengths)
        items = np.concatenate([each.items for each in made])
        order = np.lexsort((np.arange(len(items)), items, segments, origins))
        results, origins = results.take(order), origins.take(order)
    return results.stamped(None if block.timestamps is None else block.timestamps.take(origins))


class Made:
    """The results of one emission: of which record each is, and of which item of that."""

    def __init__(self, results: Columns, origins: Array, items: Array, segment: int) -> None:
        self.results = results
        self.origins = origins
        self.items = items
        self.segment = segment


_Guarded = dict[tuple[int, ...], tuple[ExpressionEvaluation, Any]]


def _computed(emission: Emission, schema: Type, whole: ExpressionEvaluation, guarded: _Guarded) -> Made | None:
    """Return the results of an emission; ``None`` if there are none.

    ``guarded`` are the records for which the first guards of an emission are true: others begin with the same ones.
    """
    at = whole
    origins: Any = np.arange(whole.length)
    items: Array | None = None
    for count, guard in enumerate(emission.guards, 1):
        key = tuple(map(id, emission.guards[:count]))
        if key not in guarded:
            kept = _true_at(guard, at)
            guarded[key] = (at, origins) if kept is None else (at.at(kept), origins.take(kept))
        at, origins = guarded[key]
    if emission.items is not None and at.length:
        content, counts = _items_of(emission.items, at)
        parents = np.repeat(np.arange(at.length), counts)
        items = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        at, origins = at.at(parents, {1: value_of(content)}), origins.take(parents)
    for condition in emission.conditions:
        kept = _true_at(condition, at)
        if kept is not None:
            at, origins, items = at.at(kept), origins.take(kept), None if items is None else items.take(kept)
    if not at.length:
        return None
    made = at.of(emission.result)
    if not emission.emits:
        return None
    results = Columns(schema, flattened(made), at.length)
    return Made(results, origins, np.zeros(at.length, np.int64) if items is None else items, emission.segment)


def _true_at(condition: Expression, at: ExpressionEvaluation) -> Array | None:
    """Return the positions where a condition is true; ``None``: everywhere."""
    if not at.length:
        return None
    truth = at.truth(at.of(condition))
    if truth.constant:
        return None if truth.data else np.empty(0, np.int64)
    return None if truth.data.all() else np.flatnonzero(truth.data)


def _items_of(items: Expression, at: ExpressionEvaluation) -> tuple[Columns, Array]:
    """Return all items that a loop goes over, texts or those of lists, and how many each record has."""
    found: tuple[Any, Array] | None = None
    match items:
        case Rowwise("str.split", (text, Constant(separator))) if type(separator) is str and separator:
            found = split_texts(_array_of(text, at), separator)
        case Rowwise("str.split", (text,)):
            found = split_by_spaces(_array_of(text, at))
    if found is not None:
        return Columns(STR, [Column(STR, found[0])], len(found[0])), found[1]
    lists = lists_of(cast("Column", at.of(items)), at.length)
    return lists.content(), lists.counts()


def _array_of(text: Expression, at: ExpressionEvaluation) -> Any:
    return cast("Column", at.of(text)).array(at.length)


__all__ = ["ColumnarFlatMapLogic", "Made", "combined", "given_of"]
