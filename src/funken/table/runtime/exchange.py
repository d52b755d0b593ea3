"""Exchanges of SQL rows over subtasks: partitionings that carry ``TableBlock``s, and their writers.

A key is the tuple of the values of the key columns, of their declared types; NULL is a value of it. Its hash and its key group
are those of ``state/keygroups.py``, which keyed state goes by: so rows are where their state is, at any parallelism.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from funken.columnar.block import Block
from funken.columnar.keyed.keys import KeyOwners, combined, hashes, hashes_of
from funken.dataclass import dataclass
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import BlockForm, Forward, Global, Hash, Rebalance
from funken.runtime.exchange.columnar_writer import ColumnarRebalanceWriter, ColumnsWriter
from funken.runtime.exchange.gate import ITSELF
from funken.runtime.exchange.writers import HashWriter
from funken.state.keygroups import normal_key
from funken.table.runtime.block import TableBlock, block_of_rows, concatenated, plain_values

_TAG = bytes([ITSELF])


def hashable(value: Any) -> Any:
    """Return a plain value, or one of a program, as part of a key: equal for equal values of SQL.

    >>> hashable([1, (2,)]), hashable("x")
    ((1, (2,)), 'x')
    """
    return tuple(map(hashable, value)) if isinstance(value, list | tuple) else normal_key(value)


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def key_tuples(batch: pa.RecordBatch, columns: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the keys of the rows of a batch.

    >>> key_tuples(pa.record_batch({"a": [1, None], "b": ["x", "y"]}), (1, 0))
    [('x', 1), ('y', None)]
    """
    found = []
    for column in columns:
        array = batch.column(column)
        values = plain_values(array)
        special = _is_nested(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type)
        found.append(list(map(hashable, values)) if special else values)
    return list(zip(*found, strict=True)) if found else [()] * batch.num_rows


def key_hashes(batch: pa.RecordBatch, columns: Sequence[int]) -> Any:
    """Return ``stable_hash`` of the keys of the rows of a batch.

    >>> from funken.state.keygroups import stable_hash
    >>> batch = pa.record_batch({"a": [7, 8, None], "b": ["x", "y", "x"]})
    >>> key_hashes(batch, (1, 0)).tolist() == [stable_hash(key) for key in key_tuples(batch, (1, 0))]
    True
    """
    return combined([_hashes_of_column(batch.column(place)) for place in columns], batch.num_rows)


def _hashes_of_column(column: pa.Array) -> Any:
    if pa.types.is_int64(column.type) and not column.null_count:
        return hashes(column.to_numpy())
    if _is_nested(column.type):
        return hashes_of([key for (key,) in key_tuples(pa.record_batch([column], ["key"]), (0,))])
    encoded = column.dictionary_encode("encode")
    keys = key_tuples(pa.record_batch([encoded.dictionary], ["key"]), (0,))
    return hashes_of([key for (key,) in keys]).take(encoded.indices.to_numpy())


class KeyOf:
    """The key selector of records that are ``Row``s: those that were on their way when a checkpoint was taken."""

    def __init__(self, columns: Sequence[int], schema: pa.Schema) -> None:
        self.columns = tuple(columns)
        self.schema = schema

    def __call__(self, row: Any) -> tuple[Any, ...]:
        """Return the key of a row."""
        return key_tuples(block_of_rows([row], self.schema).batch, self.columns)[0]


TABLES = BlockForm("funken.table.runtime.exchange")
TABLE_FORWARD, TABLE_GLOBAL, TABLE_REBALANCE = Forward(form=TABLES), Global(form=TABLES), Rebalance(form=TABLES)


@dataclass(frozen=True)
class TableHash(Hash):
    """Rows with equal keys to the subtask that owns their key group."""

    columns: tuple[int, ...] = ()
    form: BlockForm | None = field(default=TABLES, kw_only=True)


def table_hash(columns: Sequence[int], schema: pa.Schema) -> TableHash:
    """Return the partitioning by the values of some columns."""
    return TableHash(UserFunction(KeyOf(columns, schema)), tuple(columns))


class _TableForm(ColumnsWriter):
    """The form of tables on an edge: how blocks are joined and serialized."""

    form = TableBlock

    def _joinable(self, first: Any, block: Any) -> bool:
        return first.schema.equals(block.schema) and (first.timestamps is None) is (block.timestamps is None)

    def _joined(self, waiting: list[Any]) -> tuple[Block, bytes]:
        block = concatenated(waiting)
        return block, _TAG + pickle.dumps(block, 5)


class TableRebalanceWriter(_TableForm, ColumnarRebalanceWriter):
    """Round robin, row by row, or everything to one target."""


class TableHashWriter(_TableForm, HashWriter):
    """Rows with equal keys to one target, by key group."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._columns = self.edge.partitioning.columns  # type: ignore[attr-defined]
        self._owners = KeyOwners(self.edge.target_max_parallelism, self.targets, 1 << 10)

    def _buffer(self, block: Any) -> None:
        if self.targets == 1:
            self._put(0, block)
            return
        for target, positions in enumerate(self._owners.deal_hashed(key_hashes(block.batch, self._columns))):
            if len(positions):
                self._put(target, block.take(positions) if len(positions) < len(block) else block)


WRITERS: dict[type, type[ColumnsWriter]] = {
    TableHash: TableHashWriter,
    **dict.fromkeys((Rebalance, Forward, Global), TableRebalanceWriter),
}
