"""The rows of a block by key: numbers in place of keys, and the rows of each number together, in the order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import Groups
from funken.table.runtime.exchange import key_tuples

Tuple = tuple[Any, ...]
_MOST = 1 << 62
_FEW = 32
"""Keys of fewer rows are told apart one by one."""


def codes_of(column: pa.Array) -> tuple[Any, int]:
    """Return a number per value, equal for equal values of SQL (NULL is one), and how many numbers there may be.

    >>> codes_of(pa.array(["x", None, "x"]))
    (array([0, 1, 0]), 2)
    >>> codes_of(pa.array([[1], [2], [1]]))
    (array([0, 1, 0]), 2)
    """
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        known: dict[Any, int] = {}
        values = key_tuples(pa.record_batch([column], ["value"]), (0,))
        numbers = [known.setdefault(value, len(known)) for value in values]
        return np.array(numbers, np.int64), len(known)
    encoded = column.dictionary_encode("encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def joint_codes(parts: Sequence[tuple[Any, int]], length: int) -> tuple[Any, int]:
    """Return a number per row that is equal where the numbers of all parts are.

    >>> joint_codes([(np.array([0, 1, 0]), 2), (np.array([5, 5, 5]), 9)], 3)
    (array([0, 1, 0]), 2)
    """
    if not parts:
        return np.zeros(length, np.int64), 1
    numbers, count = parts[0]
    for more, others in parts[1:]:
        if count * others >= _MOST:
            numbers, count = dense(numbers)
        numbers, count = numbers * others + more, count * others
    return dense(numbers) if len(parts) > 1 else (numbers, count)


def dense(numbers: Any) -> tuple[Any, int]:
    """Return numbers from 0 on in place of others, and how many there are.

    >>> dense(np.array([7, 9, 7]))
    (array([0, 1, 0]), 2)
    """
    encoded = pa.array(numbers).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def firsts_of(codes: Any, count: int) -> Any:
    """Return where each number stands first; all of them occur.

    >>> firsts_of(np.array([1, 0, 1]), 2).tolist()
    [1, 0]
    """
    found = np.empty(count, np.int64)
    found[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return found


class KeyedRows:
    """The rows of a batch by the values of some columns.

    >>> rows = KeyedRows(pa.record_batch({"k": ["x", "y", "x"], "v": [1, 2, 3]}), (0,))
    >>> rows.keys, rows.groups.begins.tolist(), rows.groups.order.tolist()
    ([('x',), ('y',)], [0, 2], [0, 2, 1])
    """

    def __init__(self, batch: pa.RecordBatch, columns: Sequence[int]) -> None:
        if batch.num_rows < _FEW:
            known: dict[Tuple, int] = {}
            codes = [known.setdefault(key, len(known)) for key in key_tuples(batch, columns)]
            self.groups = Groups(np.array(codes, np.int64), len(known))
            #: the key of each group
            self.keys: list[Tuple] = list(known)
        else:
            self.groups = Groups(*joint_codes([codes_of(batch.column(place)) for place in columns], batch.num_rows))
            keys = [batch.column(place).take(pa.array(self.firsts)) for place in columns]
            names = [str(place) for place in columns]
            self.keys = key_tuples(pa.RecordBatch.from_arrays(keys, names), range(len(keys))) if keys else [()]

    @property
    def firsts(self) -> Any:
        """The first row of each group."""
        return self.groups.order.take(self.groups.begins)


__all__ = ["KeyedRows", "codes_of", "dense", "firsts_of", "joint_codes"]
