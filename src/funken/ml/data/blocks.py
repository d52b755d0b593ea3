"""Feature blocks: rows as arrays, and how records become them.

A record is a vector (array, list, tuple of numbers), a number, a text, or has fields: a dict, named tuple, dataclass, ``Row``,
or a tuple by position. The fields that are not the label or the weight are the features, in their order; a field that is a
vector takes as many columns as it has numbers. ``X`` always has two dimensions; texts and categories are
objects, numbers float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

from funken.errors import InvalidProgram

BLOCK_ROWS = 8192
"""Rows that are put together; a kernel's temporary arrays stay in the caches of a core."""

FieldName = str | int


@dataclass(slots=True)
class FeatureBlock:
    """Rows: features, and perhaps labels and weights.

    >>> block = FeatureBlock(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1]))
    >>> len(block), block.weights
    (2, array([1., 1.]))
    """

    X: Any
    y: Any = None
    w: Any = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def weights(self) -> Any:
        """Return the weights; 1 for each row if there are none."""
        return np.ones(len(self)) if self.w is None else self.w


@dataclass(frozen=True, slots=True)
class FieldLayout:
    """Which fields of a record are what; ``features`` None: all that are not something else, or a record as a whole."""

    features: tuple[FieldName, ...] | None = None
    label: FieldName | None = None
    weight: FieldName | None = None

    def resolve(self, record: Any) -> FieldLayout:
        """Return the layout with the features of such a record by name.

        >>> FieldLayout(label="kind").resolve({"a": 1, "kind": "x", "b": 2}).features
        ('a', 'b')
        >>> FieldLayout(label=1).resolve(([1, 2], "x")).features
        (0,)
        >>> FieldLayout(label="kind").resolve([1, 2])
        Traceback (most recent call last):
        funken.errors.InvalidProgram: fit(): a record [1, 2] has no field 'kind'; it has: 0, 1. Name a field of the records.
        """
        names = _names(record)
        if isinstance(record, list | tuple) and not hasattr(record, "_fields") and self == FieldLayout():
            return self  # a vector: one call makes an array of many
        others = [field for field in (self.label, self.weight) if field is not None]
        chosen = self.features if self.features is not None else ()
        if names is None:
            if others or chosen:
                raise InvalidProgram(
                    f"fit(): a record {_short(record)} is a vector without fields, so it has no field {[*others, *chosen][0]!r}. "
                    "Make tuples of the vector and the label, and give their positions."
                )
            return self
        others = [_place(field, names) for field in others]
        for field in [*others, *chosen]:
            if field not in names:
                known = ", ".join(map(str, names))
                raise InvalidProgram(
                    f"fit(): a record {_short(record)} has no field {field!r}; it has: {known}. Name a field of the records."
                )
        features = tuple(chosen) or tuple(name for name in names if name not in others)
        label = None if self.label is None else _place(self.label, names)
        weight = None if self.weight is None else _place(self.weight, names)
        return FieldLayout(features, label, weight)


def _place(field: FieldName, names: Sequence[FieldName]) -> FieldName:
    """Count a negative position from the end."""
    return len(names) + field if isinstance(field, int) and field < 0 and isinstance(names[0], int) else field


def _short(record: Any) -> str:
    text = repr(record)
    return text if len(text) < 80 else text[:77] + "..."


def _names(record: Any) -> Sequence[FieldName] | None:
    if isinstance(record, Mapping):
        return list(record)
    if isinstance(record, np.ndarray | str | bytes | float | int | np.number) or sparse.issparse(record):
        return None
    if dataclasses.is_dataclass(record):
        return [field.name for field in dataclasses.fields(record)]
    fields = getattr(record, "_fields", None)
    if fields and all(isinstance(field, str) for field in fields):
        return list(fields)
    return range(len(record))


def _getter(record: Any, field: FieldName) -> Callable[[Any], Any]:
    if isinstance(record, Mapping) or isinstance(field, int):
        return lambda each: each[field]
    return lambda each: getattr(each, str(field))


def column(values: list[Any]) -> Any:
    """Return the values of one field as an array: numbers as float64 (None is NaN), vectors as rows, others as objects.

    >>> column([1, None]), column(["a", "b"]), column([[1, 2], [3, 4]]).shape
    (array([ 1., nan]), array(['a', 'b'], dtype=object), (2, 2))
    """
    first = next((value for value in values if value is not None), None)
    if isinstance(first, str | bytes):
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found
    if first is not None and sparse.issparse(first):
        return sparse.vstack(values, format="csr")
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(len(values), dtype=object)
        found[:] = values
        if isinstance(first, Sequence | np.ndarray):
            if len({len(value) for value in values}) > 1:
                raise InvalidProgram(
                    "records have vectors of different lengths in one field. Give all of them the same length."
                ) from None
            return np.array([list(value) for value in values], dtype=object)
        return found


def labels(values: list[Any]) -> Any:
    """Return labels as an array of their own kind: ints stay ints."""
    found = np.asarray(values)
    return found.astype(object) if found.dtype.kind in "US" else found


def stacked(columns: list[Any]) -> Any:
    """Put columns side by side."""
    wide = [each.reshape(-1, 1) if each.ndim == 1 else each for each in columns]
    if len(wide) == 1:
        return wide[0]
    if any(map(sparse.issparse, wide)):
        return sparse.hstack(wide, format="csr")
    return np.hstack([each.astype(object) for each in wide] if any(each.dtype == object for each in wide) else wide)


def block_of(records: list[Any], layout: FieldLayout) -> FeatureBlock:
    """Make a block of records with a resolved layout.

    >>> block = block_of([(1, 2, "a"), (3, 4, "b")], FieldLayout((0, 1), label=2))
    >>> block.X.tolist(), block.y.tolist()
    ([[1.0, 2.0], [3.0, 4.0]], ['a', 'b'])
    """
    first = records[0]
    if layout.features is None or _names(first) is None:
        return FeatureBlock(stacked([column(records)]))
    try:
        columns = [column([get(record) for record in records]) for get in (_getter(first, f) for f in layout.features)]
        y = None if layout.label is None else labels([*map(_getter(first, layout.label), records)])
        w = None if layout.weight is None else column([*map(_getter(first, layout.weight), records)])
    except (KeyError, IndexError, AttributeError) as error:
        raise InvalidProgram(
            f"a record {_short(first)} or one after it lacks a field of the features {list(layout.features)}: {error!r}. "
            "Give records with the fields that the model was fitted with."
        ) from error
    return FeatureBlock(stacked(columns), y, w)


def blocks_of(records: Iterable[Any], layout: FieldLayout, rows: int = BLOCK_ROWS) -> Iterator[FeatureBlock]:
    """Cut records into blocks.

    >>> [len(block) for block in blocks_of([[1.0], [2.0], [3.0]], FieldLayout(), rows=2)]
    [2, 1]
    """
    iterator = iter(records)
    while some := list(islice(iterator, rows)):
        yield block_of(some, layout)
