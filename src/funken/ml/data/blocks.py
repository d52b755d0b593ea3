"""Feature blocks: rows as arrays, and how records become them.

A record is a vector (array, list, tuple of numbers), a number, a text, or has fields: a dict, named tuple, dataclass, ``Row``,
or a tuple by position. The fields that are not the label or the weight are the features, in their order; a field that is a
vector takes as many columns as it has numbers. ``X`` always has two dimensions; texts and categories are
objects, numbers float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

from funken.errors import InvalidProgram
from funken.ml.data.demands import ANYTHING, Demands, FieldName, kind_of, short, width_of

BLOCK_ROWS = 8192
"""Rows that are put together; a kernel's temporary arrays stay in the caches of a core."""


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

    def resolve(self, record: Any, caller: str = "fit()") -> FieldLayout:
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
                    f"{caller}: a record {short(record)} is a vector without fields, so it has no {[*others, *chosen][0]!r}. "
                    "Make tuples of the vector and the label, and give their positions."
                )
            return self
        others = [_place(field, names) for field in others]
        for field in [*others, *chosen]:
            if field not in names:
                known = ", ".join(map(str, names))
                raise InvalidProgram(
                    f"{caller}: a record {short(record)} has no field {field!r}; it has: {known}. Name a field of the records."
                )
        features = tuple(chosen) or tuple(name for name in names if name not in others)
        label = None if self.label is None else _place(self.label, names)
        weight = None if self.weight is None else _place(self.weight, names)
        return FieldLayout(features, label, weight)

    def demands(self, record: Any, demands: Demands) -> Demands:
        """Return what is demanded of all records if this is the first one, and the layout is resolved.

        >>> FieldLayout((0, 1)).demands(([1, 2], 3), Demands("fit()")).widths
        (2, None)
        """
        names = _names(record)
        if self.features is None or names is None:
            return replace(demands, widths=(width_of(record),))
        widths = tuple(width_of(_getter(record, field)(record)) for field in self.features)
        label = None if self.label is None else kind_of(_getter(record, self.label)(record))
        return replace(demands, widths=widths, label=label)


def _place(field: FieldName, names: Sequence[FieldName]) -> FieldName:
    """Count a negative position from the end."""
    return len(names) + field if isinstance(field, int) and field < 0 and isinstance(names[0], int) else field


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
        return _objects(values)
    if first is not None and sparse.issparse(first):
        if any(not sparse.issparse(value) or value.shape[-1] != first.shape[-1] for value in values):
            raise RaggedVectors(values)
        return sparse.vstack(values, format="csr")
    try:
        found = np.array(values)
        if found.dtype.kind in "biuf":
            return found.astype(np.float64, copy=False)
        if found.dtype.kind == "O" and not any(isinstance(value, str | bytes) for value in found.flat):
            return found.astype(np.float64)
    except (TypeError, ValueError):
        pass
    width = width_of(first)
    if any(width_of(value) != width for value in values):  # a width, where others have none or another
        raise RaggedVectors(values)
    return _objects(values) if width is None else np.array([list(value) for value in values], dtype=object)


def _objects(values: list[Any]) -> Any:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


class RaggedVectors(InvalidProgram):
    """A field has vectors of several lengths; or vectors, and values that are none."""

    def __init__(self, values: list[Any]) -> None:
        super().__init__("records have vectors of different lengths in one field. Give all of them the same length.")
        self.values = values


def labels(values: list[Any]) -> Any:
    """Return labels as an array of their own kind: ints stay ints.

    >>> labels([1, 2]), labels(["a", 2])
    (array([1, 2]), array(['a', 2], dtype=object))
    """
    try:
        found = np.asarray(values)
    except ValueError:  # vectors of several lengths
        return _objects(values)
    return found if found.dtype.kind in "biuf" else _objects(values)


def stacked(columns: list[Any]) -> Any:
    """Put columns side by side."""
    wide = [each.reshape(-1, 1) if each.ndim == 1 else each for each in columns]
    if len(wide) == 1:
        return wide[0]
    if any(map(sparse.issparse, wide)):
        return sparse.hstack(wide, format="csr")
    return np.hstack([each.astype(object) for each in wide] if any(each.dtype == object for each in wide) else wide)


def block_of(records: list[Any], layout: FieldLayout, demands: Demands = ANYTHING) -> FeatureBlock:
    """Make a block of records with a resolved layout.

    >>> block = block_of([(1, 2, "a"), (3, 4, "b")], FieldLayout((0, 1), label=2))
    >>> block.X.tolist(), block.y.tolist()
    ([[1.0, 2.0], [3.0, 4.0]], ['a', 'b'])
    """
    demands.check_names(records)
    first = records[0]
    feature: FieldName | None = None
    features: Sequence[FieldName] | None = None
    y = w = None
    try:
        if layout.features is None or _names(first) is None:
            columns = [column(records)]
        else:
            columns, features = [], layout.features
            for feature in features:
                columns.append(column(_values(records, feature, demands)))
            y = None if layout.label is None else labels(_values(records, layout.label, demands))
            w = None if layout.weight is None else column(_values(records, layout.weight, demands))
    except RaggedVectors as error:
        raise demands.ragged(records, error.values, feature) from None
    demands.check(records, features, columns, y, w)
    return FeatureBlock(stacked(columns), y, w)


def _values(records: list[Any], field: FieldName, demands: Demands) -> list[Any]:
    get = _getter(records[0], field)
    try:
        return [get(record) for record in records]
    except (KeyError, IndexError, AttributeError, TypeError):
        for record in records:
            try:
                get(record)
            except (KeyError, IndexError, AttributeError, TypeError) as error:
                raise InvalidProgram(
                    f"{demands.caller}: the record {short(record)} lacks the field {field!r}. Give records with the fields "
                    "of the first one, or name the fields to use: features=[...]."
                ) from error
        raise


def blocks_of(
    records: Iterable[Any], layout: FieldLayout, demands: Demands = ANYTHING, rows: int = BLOCK_ROWS
) -> Iterator[FeatureBlock]:
    """Cut records into blocks.

    >>> [len(block) for block in blocks_of([[1.0], [2.0], [3.0]], FieldLayout(), rows=2)]
    [2, 1]
    """
    iterator = iter(records)
    while some := list(islice(iterator, rows)):
        yield block_of(some, layout, demands)
