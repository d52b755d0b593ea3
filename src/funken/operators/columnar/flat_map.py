"""flat_map over columns: each place of the function that gives results is computed for a block, and these are put in order.

Texts that a loop goes over are split for the whole block, lists are columns already; its body is computed for all items at once.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from funken.columnar.block import Block
from funken.columnar.expressions import STR, Constant, Expression, RecordSchema, Rowwise, leaves_of
from funken.columnar.flat_maps.emissions import Emission, paths_of
from funken.columnar.kernels.columns import Array, Column, Columns, joined, lists_of
from funken.columnar.kernels.evaluation import computed_of, evaluate
from funken.columnar.kernels.text import split_by_spaces, split_texts
from funken.operators.columnar.path import ColumnPath, TracedFunction
from funken.operators.columnar.specs import ColumnarFlatMap
from funken.operators.stateless import FlatMapLogic


class ColumnarFlatMapLogic(FlatMapLogic):
    """Computes the results of a block at once."""

    columnar = True

    def __init__(self, spec: ColumnarFlatMap) -> None:
        super().__init__(spec.function)
        emissions, schema = spec.traced.emissions, spec.schema
        self._given = ColumnPath(
            lambda block: given_of(emissions, schema, block), TracedFunction(spec.function, spec.traced)
        )

    def process_block(self, block: Block) -> None:
        """Expand a block."""
        given = self._given(block)
        if given is None:
            self.process(*block.rows())
        elif given.length:
            self.output.emit_block(given)


def given_of(emissions: tuple[Emission, ...], schema: RecordSchema, block: Columns) -> Columns:
    """Return all results for a block, with the timestamps of their records, in order; raises ``FallBackToRows``."""
    return combined([_Part(block).computed(each, schema) for each in emissions], schema, block)


def combined(parts: list[Made | None], schema: RecordSchema, block: Columns) -> Columns:
    """Return the results of several emissions for a block, with the timestamps of their records, in order."""
    made = [each for each in parts if each is not None]
    if not made:
        return Columns(schema, [Column(kind, None, True) for _, kind in leaves_of(schema)], 0)
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


class _Part:
    """The records of a block, or the items of them, that one emission is computed for."""

    def __init__(self, block: Columns) -> None:
        self._blocks = [block]
        self._origins: Array = np.arange(block.length)
        self._items: Array | None = None

    def computed(self, emission: Emission, schema: RecordSchema) -> Made | None:
        """Return the results of an emission; ``None`` if there are none."""
        for guard in emission.guards:
            self._keep(guard)
        if emission.items is not None:
            self._split(emission)
        for condition in emission.conditions:
            self._keep(condition)
        if not self._blocks[0].length:
            return None
        if not emission.emits:
            evaluate(emission.result, self._blocks[0].length, *self._blocks)
            return None
        results = computed_of(emission.result, schema, *self._blocks).stamped(None)
        items = np.zeros(results.length, np.int64) if self._items is None else self._items
        return Made(results, self._origins, items, emission.segment)

    def _keep(self, condition: Expression) -> None:
        if not self._blocks[0].length:
            return
        truth: Any = evaluate(condition, self._blocks[0].length, *self._blocks)
        if truth.constant:
            if not truth.data:
                self._take(np.empty(0, np.int64))
        elif not truth.data.all():
            self._take(np.flatnonzero(truth.data))

    def _take(self, positions: Array) -> None:
        self._blocks = [block.take(positions) for block in self._blocks]
        self._origins = self._origins.take(positions)
        self._items = None if self._items is None else self._items.take(positions)

    def _split(self, emission: Emission) -> None:
        """Go over to the items of each record."""
        (block,) = self._blocks
        if not block.length:
            return
        assert emission.items is not None
        items, counts = items_of(emission.items, block)
        parents = np.repeat(np.arange(block.length), counts)
        self._items = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        self._origins = self._origins.take(parents)
        used = paths_of([*emission.conditions, emission.result], 0)
        self._blocks = [_repeated(block, parents, used), items]


def _repeated(block: Columns, parents: Array, used: set[tuple[int, ...]]) -> Columns:
    """Return the records at some positions, as far as their fields are used."""
    leaves = [
        leaf.take(parents) if any(path[: len(each)] == each for each in used) else Column(kind, None, True)
        for (path, kind), leaf in zip(leaves_of(block.schema), block.leaves, strict=True)
    ]
    return Columns(block.schema, leaves, len(parents))


def items_of(items: Expression, block: Columns) -> tuple[Columns, Array]:
    """Return all items that a loop goes over, texts or those of lists, and how many each record has."""
    found: tuple[Any, Array] | None = None
    match items:
        case Rowwise("str.split", (text, Constant(separator))) if type(separator) is str and separator:
            found = split_texts(_array_of(text, block), separator)
        case Rowwise("str.split", (text,)):
            found = split_by_spaces(_array_of(text, block))
    if found is not None:
        return Columns(STR, [Column(STR, found[0])], len(found[0])), found[1]
    lists = lists_of(cast("Column", evaluate(items, block.length, block)), block.length)
    return lists.content(), lists.counts()


def _array_of(text: Expression, block: Columns) -> Any:
    found: Any = evaluate(text, block.length, block)
    return found.array(block.length)


__all__ = ["ColumnarFlatMapLogic", "Made", "combined", "given_of", "items_of"]
