"""Encoders of categories, and imputers: scikit-learn's, fitted by one pass over distributed data."""

from __future__ import annotations

from collections import Counter
from operator import add
from typing import Any

import numpy as np
from sklearn import impute, preprocessing

from funken.errors import InvalidProgram
from funken.ml.base import DistributedEstimator, DistributedTransformer
from funken.ml.data.sources import BlockSet
from funken.ml.preprocessing.statistics import Moments, Quantiles, added_counts


def categories_of(blocks: BlockSet) -> list[Any]:
    """Return the sorted distinct values of every feature."""

    def local(block: Any) -> list[set[Any]]:
        return [set(column.tolist()) for column in block.X.T]

    found = blocks.aggregate(local, lambda one, other: [a | b for a, b in zip(one, other, strict=True)])
    return [
        sorted(values, key=lambda value: (value is None, str(value) == "nan", str(type(value)), value))
        for values in found
    ]


def as_rows(columns: list[Any]) -> Any:
    """Return an array with these values in its columns; shorter columns repeat their first value.

    >>> as_rows([["a", "b"], ["x"]]).tolist()
    [['a', 'x'], ['b', 'x']]
    """
    rows = np.empty((max(map(len, columns)), len(columns)), dtype=object)
    for at, values in enumerate(columns):
        rows[:, at] = values[0]
        rows[: len(values), at] = values
    return rows if any(isinstance(value, str) for value in rows.flat) else rows.astype(np.float64)


def _no_frequencies(encoder: Any) -> None:
    if encoder.min_frequency is not None or encoder.max_categories is not None:
        raise InvalidProgram(
            f"{type(encoder).__name__}: min_frequency and max_categories are for arrays only. Leave them out."
        )


class OneHotEncoder(DistributedTransformer, preprocessing.OneHotEncoder):
    """Makes a column of 0 and 1 of every category.

    >>> OneHotEncoder().fit_transform([["a"], ["b"]]).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        _no_frequencies(self)
        preprocessing.OneHotEncoder.fit(self, as_rows(categories_of(blocks)))


class OrdinalEncoder(DistributedTransformer, preprocessing.OrdinalEncoder):
    """Replaces categories by their place in the sorted order.

    >>> OrdinalEncoder().fit_transform([["b"], ["a"]]).tolist()
    [[1.0], [0.0]]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        _no_frequencies(self)
        preprocessing.OrdinalEncoder.fit(self, as_rows(categories_of(blocks)))


class LabelEncoder(DistributedEstimator, preprocessing.LabelEncoder):
    """Replaces labels by whole numbers; ``fit(data, y="label")`` of distributed data.

    >>> LabelEncoder().fit(["b", "a"]).transform(["a", "b"]).tolist()
    [0, 1]
    """

    _needs_labels = True

    def fit(self, X: Any, y: Any = None, **given: Any) -> Any:
        """Fit to labels, or to the labels of distributed data."""
        if isinstance(X, list | tuple | np.ndarray):
            return preprocessing.LabelEncoder.fit(self, X)
        return super().fit(X, y, **given)

    def _fit_blocks(self, blocks: BlockSet) -> None:
        found = blocks.aggregate(lambda block: set(block.y.tolist()), lambda one, other: one | other)
        preprocessing.LabelEncoder.fit(self, np.array(sorted(found)))


class SimpleImputer(DistributedTransformer, impute.SimpleImputer):
    """Replaces missing numbers by the mean, the median, the most frequent or a constant value.

    >>> SimpleImputer().fit_transform([[1.0], [float("nan")], [3.0]]).tolist()
    [[1.0], [2.0], [3.0]]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        if not (isinstance(self.missing_values, float) and np.isnan(self.missing_values)):
            raise InvalidProgram(
                "SimpleImputer: of distributed data only NaN (or None) is missing. Map other marks to None."
            )
        if self.add_indicator:
            raise InvalidProgram(
                "SimpleImputer(add_indicator=True) fits arrays only. Leave it out for distributed data."
            )
        match self.strategy:
            case "mean":
                moments = blocks.aggregate(lambda block: Moments.of(block.X), add)
                found = np.where(moments.weight == 0, np.nan, moments.mean)
            case "median":
                found = blocks.aggregate(lambda block: Quantiles.of(block.X), add).at([0.5])[0]
            case "most_frequent":
                found = np.array([_most_frequent(count) for count in blocks.aggregate(_counts, added_counts)])
            case _:
                found = np.zeros(blocks.aggregate(lambda block: block.X.shape[1], max))
        impute.SimpleImputer.fit(self, found.reshape(1, -1))  # what is known of one row is the row


def _counts(block: Any) -> list[Counter[Any]]:
    return [Counter(column[~np.isnan(column)].tolist()) for column in block.X.T]


def _most_frequent(count: Counter[Any]) -> float:
    return float(min(count, key=lambda value: (-count[value], value))) if count else float("nan")
