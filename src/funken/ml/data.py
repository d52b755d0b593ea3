"""Data of learners: frames, sources, the columns that a model demands, and blocks.

Spark ``DataFrame`` objects: columns change sides as Parquet files, and never become rows of Python.

A frame that only reads Parquet files of this file system is read from those; any other is written once. ``pyspark`` is not
imported here: a frame is known by its methods. What a model gives is added by ``mapInArrow``, so the result is a lazy frame of
Spark, also of a streaming one.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial, reduce
from itertools import islice
from typing import Any, Protocol, TypeVar, overload
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow
import pyarrow.compute
from pyarrow import parquet
from scipy import sparse

from funken import DataStream
from funken.dataset import DataSet, ExecutionEnvironment, InputFormat, MapPartitionFunction
from funken.errors import InvalidProgram

# ---- What records have to be for an estimator: checked block by block, in every task alike.
#
# The first record of a fit says how many numbers each field has and of what kind the label is; a record that
# differs is refused by itself, whichever task reads it. What an estimator takes (texts, missing numbers) is what
# scikit-learn's tags say of it.


FieldName = str | int


class Spreads(Protocol):
    """A method of an estimator: it pairs records of distributed data with results, and takes arrays as scikit-learn does."""

    @overload
    def __call__(self, X: DataSet[S], **given: Any) -> DataSet[tuple[S, Any]]: ...
    @overload
    def __call__(self, X: DataStream[S], **given: Any) -> DataStream[tuple[S, Any]]: ...
    @overload
    def __call__(self, X: Any, *arguments: Any, **given: Any) -> Any: ...


def spreads(method: Callable[..., Any]) -> Spreads:
    """Return the method, which a checker takes for ``Spreads``."""
    spreading: Any = method
    found: Spreads = spreading
    return found


_REMEDY_TEXT = "Encode it before (OneHotEncoder, OrdinalEncoder, HashingVectorizer), or name other features."


@dataclass(frozen=True, slots=True)
class Demands:
    """The demands of an estimator on records.

    ``widths`` are the numbers per feature of the first record (None: one number), ``total`` those of all features of a fitted
    model; ``names`` is the number of fields if all of them are used; ``label`` is the kind of the labels.

    >>> demands = Demands("StandardScaler.fit()", widths=(2,))
    >>> demands.check([(1.0, 2.0), (3.0, 4.0)], None, [np.array([[1.0, 2.0], [3.0, 4.0]])])
    >>> demands.check([(1.0,)], None, [np.array([[1.0]])])
    Traceback (most recent call last):
    funken.errors.InvalidProgram: StandardScaler.fit(): the record (1.0,) has 1 number, but the first one has 2. Give all...
    """

    caller: str
    numbers: bool = False
    finite: bool = False
    widths: tuple[int | None, ...] | None = None
    total: int | None = None
    names: int | None = None
    #: ``number``, ``class`` or None: any
    labels: str | None = None
    label: str | None = None

    def check(
        self, records: Sequence[Any] | None, features: Sequence[FieldName] | None, columns: list[Any], y: Any = None,
        w: Any = None,
    ) -> None:  # fmt: skip
        """Raise at the first record that cannot be taken; ``records`` is None if there are but columns."""
        widths = tuple(1 if each.ndim == 1 else int(each.shape[1]) for each in columns)
        if self.widths is not None and widths != tuple(each or 1 for each in self.widths):
            raise self._wrong_width(records, features, columns, widths)
        if self.total is not None and sum(widths) != self.total:
            raise InvalidProgram(
                f"{self.caller}: {_of(records, 0)} has {_numbers(sum(widths))}, but the model has {self.total}. "
                "Give records with the features that it was fitted with."
            )
        for at, column in enumerate(columns):
            name = "" if features is None else f"the feature {features[at]!r} of "
            self._check_column(records, name, column)
        if y is not None:
            self._check_labels(records, y)
        if w is not None:
            self._check_weights(records, w)

    def check_names(self, records: Sequence[Any]) -> None:
        """Raise at a record with more fields than the first one, if all fields are features."""
        if self.names is None or not isinstance(records[0], dict | list | tuple):
            return
        for record in records:
            if len(record) != self.names:
                more = "more" if len(record) > self.names else "fewer"
                raise InvalidProgram(
                    f"{self.caller}: the record {short(record)} has {more} fields than the first one, which has {self.names}. "
                    "Name the fields to use: features=[...]."
                )

    def ragged(self, records: Sequence[Any], values: Sequence[Any], feature: FieldName | None) -> InvalidProgram:
        """Return the error for a feature with vectors of several lengths."""
        first = width_of(values[0]) if self.total is None or feature is not None else self.total
        for record, value in zip(records, values, strict=True):
            if width_of(value) != first:
                return self._other_width(f"the record {short(record)}", width_of(value), first, feature)
        return InvalidProgram(f"{self.caller}: the feature {feature!r} has vectors that are no numbers. {_REMEDY_TEXT}")

    def _other_width(self, record: str, width: int | None, first: int | None, feature: Any) -> InvalidProgram:
        has = "no vector" if width is None else _numbers(width)
        where = "" if feature is None else f" in {feature!r}"
        wanted = "no vector" if first is None else first
        return InvalidProgram(
            f"{self.caller}: {record} has {has}{where}, but the first one has {wanted}. Give all of them the same number."
        )

    def _wrong_width(self, records: Any, features: Any, columns: list[Any], widths: tuple[int, ...]) -> InvalidProgram:
        assert self.widths is not None
        at = next((i for i, (a, b) in enumerate(zip(widths, self.widths, strict=False)) if a != (b or 1)), 0)
        feature = features[at] if features is not None else None
        width = None if columns[at].ndim == 1 else widths[at]
        return self._other_width(_of(records, 0), width, self.widths[at], feature)

    def _check_column(self, records: Sequence[Any] | None, name: str, column: Any) -> None:
        values = column.data if sparse.issparse(column) else column
        if values.dtype == object:
            if self.numbers:
                row, value = next(
                    ((row, value) for row, value in enumerate(values.ravel().tolist()) if not is_number(value)),
                    (0, None),
                )
                row = row // max(1, values.size // max(1, len(values)))
                what = f"{name}{_of(records, row)} is" if name else f"{_of(records, row)} has"
                raise InvalidProgram(f"{self.caller}: {what} {_shown(value)}, but numbers are needed. {_REMEDY_TEXT}")
            return
        if not self.numbers or np.isfinite(values).all():
            return
        wrong = np.isinf(values) if not self.finite else ~np.isfinite(values)
        if wrong.any():
            row = 0 if sparse.issparse(column) else int(np.argwhere(wrong)[0][0])
            raise InvalidProgram(
                f"{self.caller}: {name or 'a number of '}{_of(records, row)} is NaN, None or infinite. "
                "Impute missing numbers before (SimpleImputer), "
                "or filter such records."
            )

    def _check_labels(self, records: Sequence[Any] | None, y: Any) -> None:
        if self.labels is None:
            return
        if y.ndim != 1:
            raise InvalidProgram(
                f"{self.caller}: the label of {_of(records, 0)} is a vector. Name a field with one label."
            )
        if y.dtype != object:
            wrong = ~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(0, dtype=bool)
            if wrong.any():
                self._refuse_missing(records, int(wrong.argmax()))
            if self.labels == "class" and self.caller.endswith(".fit()") and y.dtype.kind == "f" and (y % 1).any():
                row = int((y % 1 != 0).argmax())
                raise InvalidProgram(
                    f"{self.caller}: the label of {_of(records, row)} is {y[row]:g}, but a classifier needs classes: whole "
                    "numbers or texts. Take a regression, or divide the numbers into classes."
                )
            if self.label == "text" and len(y):
                raise self._other_label(records, 0, y[0].item())
            return
        for row, value in enumerate(y.tolist()):
            if value is None or value != value:  # noqa: PLR0124 - NaN
                self._refuse_missing(records, row)
            if self.labels == "number" and not is_number(value):
                raise InvalidProgram(
                    f"{self.caller}: the label of {_of(records, row)} is {_shown(value)}, but a regression needs numbers. Take a "
                    "classifier, or another field."
                )
            if self.label is not None and kind_of(value) != self.label:
                raise self._other_label(records, row, value)

    def _refuse_missing(self, records: Sequence[Any] | None, row: int) -> None:
        raise InvalidProgram(
            f"{self.caller}: the label of {_of(records, row)} is missing (None or NaN) or infinite. Filter such records."
        )

    def _other_label(self, records: Sequence[Any] | None, row: int, value: Any) -> InvalidProgram:
        return InvalidProgram(
            f"{self.caller}: the label of {_of(records, row)} is {_shown(value)}, but that of the first record is a "
            f"{self.label}. Give all labels one type."
        )

    def _check_weights(self, records: Sequence[Any] | None, w: Any) -> None:
        if w.ndim != 1 or w.dtype == object:
            raise InvalidProgram(f"{self.caller}: a sample weight is no number. Name a field of numbers.")
        wrong = ~(np.isfinite(w) & (w >= 0))
        if wrong.any():
            row = int(wrong.argmax())
            raise InvalidProgram(
                f"{self.caller}: the sample weight of {_of(records, row)} is {w[row]:g}, but has to be a number of 0 or more. "
                "Filter such records, or mend the weights."
            )


ANYTHING = Demands("fit()")
"""No demand but one width."""


def demands_of(estimator: Any, method: str, **shape: Any) -> Demands:
    """Return the demands of an estimator of scikit-learn."""
    from sklearn.base import is_classifier, is_regressor  # noqa: PLC0415 - slow to load

    first = estimator
    while getattr(first, "steps", None) and not isinstance(first, type):
        first = next((step for _, step in first.steps if step is not None and step != "passthrough"), None)
    if not hasattr(first, "coef_") and getattr(first, "estimator", None) is not None:
        first = first.estimator
    labels = "number" if is_regressor(estimator) else "class" if is_classifier(estimator) else None
    caller = f"{type(estimator).__name__}.{method}()"
    if first is None or isinstance(first, type) or not hasattr(first, "__sklearn_tags__"):
        return Demands(caller, labels=labels, **shape)
    tags = first.__sklearn_tags__().input_tags
    numbers = tags.two_d_array and not tags.categorical and not tags.string
    return Demands(caller, numbers=numbers, finite=numbers and not tags.allow_nan, labels=labels, **shape)


def width_of(value: Any) -> int | None:
    """Return the number of numbers of a vector; None for other values.

    >>> width_of((1.0, 2.0)), width_of(3.0), width_of("text")
    (2, None, None)
    """
    if sparse.issparse(value):
        return int(value.shape[-1])
    if isinstance(value, np.ndarray):
        return int(value.shape[-1]) if value.ndim else None
    return len(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else None


def is_number(value: Any) -> bool:
    """Return True for a number, a truth value or None."""
    return value is None or isinstance(value, int | float | Decimal | np.number | np.bool_)


def kind_of(label: Any) -> str | None:
    """Return the type of a label; None for a missing one.

    >>> kind_of("a"), kind_of(True), kind_of(2.5), kind_of(None)
    ('text', 'number', 'number', None)
    """
    if label is None:
        return None
    return "text" if isinstance(label, str | bytes) else "number" if is_number(label) else type(label).__name__


def short(record: Any) -> str:
    """Return a record as text, cut off.

    >>> short((1, 2))
    '(1, 2)'
    """
    text = repr(record)
    return text if len(text) < 80 else text[:77] + "..."


def _of(records: Sequence[Any] | None, row: int) -> str:
    return "a row of the frame" if records is None else f"the record {short(records[row])}"


def _shown(value: Any) -> str:
    return f"the text {short(value)}" if isinstance(value, str | bytes) else f"{short(value)} ({type(value).__name__})"


def _numbers(count: int) -> str:
    return f"{count} number" + "s" * (count != 1)


# ---- Feature blocks: rows as arrays, and how records become them.
#
# A record is a vector (array, list, tuple of numbers), a number, a text, or has fields: a dict, named tuple,
# dataclass, ``Row``, or a tuple by position. The fields that are not the label or the weight are the features, in
# their order; a field that is a vector takes as many columns as it has numbers. ``X`` always has two dimensions;
# texts and categories are objects, numbers float64.


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
    """The roles of a record's fields; ``features`` None: all fields without another role, or the record as a whole."""

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
        """Return the demands on all records if this is the first one, and the layout is resolved.

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
    """Return labels as an array of their own type: ints stay ints.

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


_ROWS = 65536


def is_frame(data: Any) -> bool:
    """Return True if data is a ``DataFrame`` of Spark."""
    return hasattr(data, "mapInArrow") and hasattr(data, "sparkSession")


def values_of(array: Any) -> Any:
    """Return an Arrow column as an array: numbers as float64, lists as rows.

    >>> values_of(pyarrow.chunked_array([[[1, 2], [3, 4]]])).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    >>> values_of(pyarrow.chunked_array([[1, None]]))
    array([ 1., nan])
    """
    kind = array.type
    if pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind):
        return _array_of(array).astype(np.float64, copy=False)
    lists = pyarrow.types.is_list(kind) or pyarrow.types.is_fixed_size_list(kind)
    if lists and not array.null_count and len(array):
        flat = pyarrow.chunked_array(array).combine_chunks() if isinstance(array, list) else array
        whole = flat.combine_chunks() if isinstance(flat, pyarrow.ChunkedArray) else flat
        whole = pyarrow.concat_arrays(whole.chunks) if isinstance(whole, pyarrow.ChunkedArray) else whole
        numbers = whole.flatten().to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        if len(pyarrow.compute.unique(pyarrow.compute.list_value_length(whole))) == 1:
            return numbers.reshape(len(array), -1)
        raise InvalidProgram("a column has vectors of different lengths. Give all of them the same length.")
    return column(array.to_pylist())


def _array_of(array: Any) -> Any:
    """Return numbers; None is NaN. Only a part of a column can be had without a copy, and only if nothing is missing."""
    return array.to_numpy() if isinstance(array, pyarrow.ChunkedArray) else array.to_numpy(zero_copy_only=False)


def labels_of(array: Any) -> Any:
    """Return an Arrow column as labels, of their own type.

    >>> labels_of(pyarrow.array([1, 0])), labels_of(pyarrow.array(["a", "b"]))
    (array([1, 0]), array(['a', 'b'], dtype=object))
    """
    plain = pyarrow.types.is_integer(array.type) or pyarrow.types.is_floating(array.type)
    return _array_of(array) if plain and not array.null_count else labels(array.to_pylist())


def block_of_columns(table: Any, layout: FieldLayout, demands: Demands = ANYTHING) -> FeatureBlock:
    """Make a block of an Arrow table or batch."""
    missing = [name for name in layout.features or () if name not in table.schema.names]
    if missing:
        known = ", ".join(table.schema.names)
        raise InvalidProgram(f"the frame has no column {missing[0]!r}; it has: {known}. Name a column of it.")
    columns = [values_of(table.column(name)) for name in layout.features or ()]
    y = None if layout.label is None else labels_of(table.column(layout.label))
    w = None if layout.weight is None else values_of(table.column(layout.weight))
    demands.check(None, layout.features, columns, y, w)
    return FeatureBlock(stacked(columns), y, w)


class ParquetBlocks(InputFormat):
    """Feature blocks of the columns of Parquet files, a split per row group."""

    def __init__(self, paths: Sequence[str], layout: FieldLayout, demands: Demands) -> None:
        self.paths, self.layout, self.demands = paths, layout, self._of_first(paths, layout, demands)

    @staticmethod
    def _of_first(paths: Sequence[str], layout: FieldLayout, demands: Demands) -> Demands:
        """Let the first row say how wide the features are."""
        for path in paths:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(1):
                    block = [values_of(batch.column(name)) for name in layout.features or ()]
                    return replace(demands, widths=tuple(None if each.ndim == 1 else each.shape[1] for each in block))
        return demands

    @staticmethod
    def of(frame: Any, asked: FieldLayout, demands: Demands = ANYTHING) -> ParquetBlocks:
        """Find the files that a frame reads, or write it once, now; such files are removed when they are not used any more."""
        if frame.isStreaming:
            raise InvalidProgram(
                "fit() got a streaming DataFrame, which never ends. Fit on a static one, or learn on a stream."
            )
        names: Sequence[FieldName] = frame.columns
        layout = asked.resolve(dict.fromkeys(names), demands.caller)
        used = [str(name) for name in (*(layout.features or ()), layout.label, layout.weight) if name is not None]
        chosen = frame.select(*used)
        if found := files_of(chosen):
            return ParquetBlocks(found, layout, demands)
        folder = tempfile.mkdtemp(prefix="funken-blocks-")
        path = os.path.join(folder, "rows")
        chosen.write.parquet(path)
        written = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".parquet")]
        made = ParquetBlocks(written, layout, demands)
        weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
        return made

    def create_splits(self, parallelism: int) -> Sequence[Any]:
        """Make a split of every row group."""
        return [(path, at) for path in self.paths for at in range(parquet.ParquetFile(path).metadata.num_row_groups)]

    def read(self, split: Any) -> Iterator[FeatureBlock]:
        """Read a row group."""
        path, group = split
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS, row_groups=[group]):
                if batch.num_rows:
                    yield block_of_columns(batch, self.layout, self.demands)


_SAME = {
    "double": pyarrow.float64(),
    "float": pyarrow.float32(),
    "bigint": pyarrow.int64(),
    "int": pyarrow.int32(),
    "smallint": pyarrow.int16(),
    "tinyint": pyarrow.int8(),
    "boolean": pyarrow.bool_(),
    "string": pyarrow.string(),
}
"""Types of Spark, and those of the files whose columns need no conversion."""


def files_of(frame: Any) -> list[str]:
    """Return the Parquet files of this machine that a frame reads, and does nothing else; none, if it is another frame.

    Whether that is so, is asked of Spark's optimized plan: columns by their names, from a relation of Parquet files. Partition
    columns, which are in no file, views of a cache, filters and conversions make it another frame.
    """
    try:
        plan = frame._jdf.queryExecution().optimizedPlan()
        if _class(plan) == "Project":
            columns = plan.projectList()
            if any(_class(columns.apply(at)) != "AttributeReference" for at in range(columns.length())):
                return []
            plan = plan.child()
        if _class(plan) != "LogicalRelation" or _class(plan.relation()) != "HadoopFsRelation":
            return []
        if _class(plan.relation().fileFormat()) != "ParquetFileFormat":
            return []
        places = [urlsplit(file) for file in frame.inputFiles()]
    except Exception:  # noqa: BLE001 - a frame of Spark Connect has no plan here, another release other classes: then it is written
        return []
    if any(place.scheme != "file" for place in places):
        return []
    paths = [unquote(place.path) for place in places]
    types = {field.name: _SAME.get(field.dataType.simpleString()) for field in frame.schema.fields}
    return paths if all(_has(path, types) for path in paths) else []


def _class(found: Any) -> str:
    name: str = found.getClass().getSimpleName()
    return name


def _has(path: str, types: dict[str, Any]) -> bool:
    if not os.path.isfile(path):
        return False
    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
    return all(
        kind is not None and name in schema.names and schema.field(name).type == kind for name, kind in types.items()
    )


class Added:
    """Adds a column of results to Arrow batches; runs in Spark's workers."""

    def __init__(self, model: Any, method: str, fields: tuple[FieldName, ...] | None, name: str) -> None:
        self._call, self._fields, self._name = getattr(model, method), fields, name

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield every batch with the column."""
        for batch in batches:
            layout = FieldLayout(self._fields).resolve(dict.fromkeys(batch.schema.names))
            found = self._call(block_of_columns(batch, layout).X) if batch.num_rows else []
            found = found.toarray() if hasattr(found, "toarray") else found
            yield batch.append_column(self._name, pyarrow.array(np.asarray(found).tolist() if batch.num_rows else []))


def with_column(frame: Any, name: str, kind: str, model: Any, method: str, fields: tuple[FieldName, ...] | None) -> Any:
    """Return the frame with one more column."""
    if name in frame.columns:
        raise InvalidProgram(f"the frame has a column {name!r} already. Drop or rename it, or give another output_col.")
    columns = [f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema.fields]
    return frame.mapInArrow(Added(model, method, fields, name), ", ".join([*columns, f"`{name}` {kind}"]))


# ---- ``BlockSet``: blocks of a ``DataSet``, whatever they were made of, and what is done to all of them in one
# pass.
#
# Partial results are merged in the order of the tasks, so that a repeated run gives the same bits.


S = TypeVar("S")


def is_distributed(data: Any) -> bool:
    """Return True if data is a ``DataSet``, ``DataStream``, Spark ``DataFrame`` or blocks of one; else it is an array.

    >>> is_distributed([[1.0]])
    False
    """
    return isinstance(data, DataSet | DataStream | BlockSet) or is_frame(data)


class BlockSet:
    """Feature blocks in the tasks of an environment.

    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> blocks = BlockSet.of(env.from_elements((1.0, 2.0, "a"), (3.0, 4.0, "b")), y=2)
    >>> blocks.fields
    (0, 1)
    >>> blocks.aggregate(lambda block: block.X.sum(axis=0), lambda a, b: a + b)
    array([4., 6.])
    """

    def __init__(self, data_set: DataSet, fields: tuple[FieldName, ...] | None = None, labelled: bool = False) -> None:
        self.data_set = data_set
        self.fields = fields
        self.labelled = labelled

    @staticmethod
    def of(
        data: Any,
        y: FieldName | None = None,
        sample_weight: FieldName | None = None,
        features: Iterable[FieldName] | None = None,
        demands: Demands = ANYTHING,
    ) -> BlockSet:
        """Make blocks of data that ``is_distributed``; ``y``, ``sample_weight`` and ``features`` name fields.

        Records that do not meet the demands are refused.
        """
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None and not isinstance(value, str | int):
                raise InvalidProgram(
                    f"fit(): {name} of a data set, stream or DataFrame is the name or position of a field, but got "
                    f"{type(value).__name__}. Put the values into the records."
                )
        if isinstance(data, BlockSet):
            return data
        features = (features,) if isinstance(features, str) else features
        asked = FieldLayout(None if features is None else tuple(features), y, sample_weight)
        if is_frame(data):
            read = ParquetBlocks.of(data, asked, demands)
            env = ExecutionEnvironment.get_execution_environment(spark=data.sparkSession)
            return BlockSet(env.create_input(read), read.layout.features, y is not None)
        if isinstance(data, DataStream):
            env = ExecutionEnvironment.create_local_environment(parallelism=1)
            data = env.from_data_stream(data)
        first = data.first(1).collect()
        if not first:
            raise InvalidProgram("fit(): the data has no record. Give one or more.")
        layout = asked.resolve(first[0], demands.caller)
        if features is None and demands.total is None and isinstance(first[0], dict | list | tuple):
            demands = replace(demands, names=len(first[0]) if layout.features is not None else None)
        cut = BlocksOfTask(partial(_cut, layout, layout.demands(first[0], demands)))
        return BlockSet(data.map_partition(cut), layout.features, y is not None)

    @staticmethod
    def of_arrays(X: Any, y: Any = None, w: Any = None, parallelism: int = 1, rows: int = BLOCK_ROWS) -> BlockSet:
        """Make blocks of arrays, in this process.

        >>> BlockSet.of_arrays(np.ones((5, 2)), rows=2).data_set.map(len).collect()
        [2, 2, 1]
        """
        env = ExecutionEnvironment.create_local_environment(parallelism)
        cut = [slice(at, at + rows) for at in range(0, X.shape[0], rows)]
        made = [FeatureBlock(X[at], None if y is None else y[at], None if w is None else w[at]) for at in cut]
        return BlockSet(env.from_collection(made), None, y is not None)

    @property
    def parallelism(self) -> int:
        """Return the number of tasks."""
        return self.data_set.get_execution_environment().get_parallelism()

    def map(self, function: Callable[[FeatureBlock], FeatureBlock]) -> BlockSet:
        """Return the blocks that the function makes."""
        return BlockSet(self.data_set.map(function), self.fields, self.labelled)

    def transformed(self, transform: Callable[[Any], Any]) -> BlockSet:
        """Return the blocks with other features."""
        return self.map(lambda block: FeatureBlock(transform(block.X), block.y, block.w))

    def aggregate(self, local: Callable[[FeatureBlock], S], merge: Callable[[S, S], S]) -> S:
        """Return the merged results of ``local`` for all blocks: first in each task, then over the tasks."""
        parts = self.data_set.map_partition(OfTask(partial(_merged, local, merge))).collect()
        if not parts:
            raise InvalidProgram("fit(): the data has no record. Give one or more.")
        found: S = reduce(merge, (value for _, value in sorted(parts, key=lambda part: part[0])))
        return found

    def gather(self) -> FeatureBlock:
        """Return all rows as one block, in this process."""
        parts = self.aggregate(lambda block: [block], lambda a, b: a + b)
        return concatenated(parts)


class OfTask(MapPartitionFunction):
    """Calls a function with the number of the task and the records of its partition."""

    def __init__(self, call: Callable[[int, Iterable[Any]], Iterable[Any]]) -> None:
        self._call = call

    def open(self, runtime_context: Any) -> None:
        """Find the task."""
        self._task = runtime_context.get_index_of_this_subtask()

    def map_partition(self, values: Iterable[Any]) -> Iterable[Any]:
        """Call the function."""
        return self._call(self._task, values)


class BlocksOfTask(OfTask):
    """A function that makes blocks of thousands of rows."""

    block_records = 4


def _cut(layout: FieldLayout, demands: Demands, task: int, values: Iterable[Any]) -> Iterator[FeatureBlock]:
    """Make blocks of the records of a partition."""
    return blocks_of(values, layout, demands)


def _merged(
    local: Callable[[FeatureBlock], Any], merge: Callable[[Any, Any], Any], task: int, values: Iterable[FeatureBlock]
) -> Iterator[Any]:
    """Yield the task and a function's results for its blocks, merged; nothing if it has no block."""
    found = None
    for block in values:
        part = local(block)
        found = part if found is None else merge(found, part)
    if found is not None:
        yield task, found


def concatenated(blocks: list[FeatureBlock]) -> FeatureBlock:
    """Return the rows of all blocks as one."""
    from scipy import sparse  # noqa: PLC0415 - slow to load

    sparse_rows = sparse.issparse(blocks[0].X)
    X = sparse.vstack([b.X for b in blocks], format="csr") if sparse_rows else np.concatenate([b.X for b in blocks])
    y = None if blocks[0].y is None else np.concatenate([block.y for block in blocks])
    w = None if blocks[0].w is None else np.concatenate([block.w for block in blocks])
    return FeatureBlock(X, y, w)
