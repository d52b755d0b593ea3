"""What records have to be for an estimator: checked block by block, in every task alike.

The first record of a fit says how many numbers each field has and of what kind the label is; a record that differs is refused by
itself, whichever task reads it. What an estimator takes (texts, missing numbers) is what scikit-learn's tags say of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from scipy import sparse

from funken.errors import InvalidProgram

FieldName = str | int
_REMEDY_TEXT = "Encode it before (OneHotEncoder, OrdinalEncoder, HashingVectorizer), or name other features."


@dataclass(frozen=True, slots=True)
class Demands:
    """What an estimator demands of records.

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
    """Return what an estimator of scikit-learn demands."""
    from sklearn.base import is_classifier, is_regressor  # noqa: PLC0415 - slow to load

    first = estimator
    while getattr(first, "steps", None):
        first = next((step for _, step in first.steps if step is not None and step != "passthrough"), None)
    if not hasattr(first, "coef_") and getattr(first, "estimator", None) is not None:
        first = first.estimator
    labels = "number" if is_regressor(estimator) else "class" if is_classifier(estimator) else None
    caller = f"{type(estimator).__name__}.{method}()"
    if first is None or not hasattr(first, "__sklearn_tags__"):
        return Demands(caller, labels=labels, **shape)
    tags = first.__sklearn_tags__().input_tags
    numbers = tags.two_d_array and not tags.categorical and not tags.string
    return Demands(caller, numbers=numbers, finite=numbers and not tags.allow_nan, labels=labels, **shape)


def width_of(value: Any) -> int | None:
    """Return the number of numbers of a vector; None for what is none.

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
    """Return what a label is; None for a missing one.

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
