"""Feature selection: scikit-learn's, fitted by one pass over distributed data."""

from __future__ import annotations

from operator import add
from typing import Any

import numpy as np
from scipy import stats
from sklearn import feature_selection

from funken.errors import InvalidProgram
from funken.ml.base import DistributedTransformer
from funken.ml.data.sources import BlockSet
from funken.ml.preprocessing.statistics import Extremes, Moments


class VarianceThreshold(DistributedTransformer, feature_selection.VarianceThreshold):
    """Drops features that vary too little.

    >>> VarianceThreshold().fit_transform([[1.0, 2.0], [1.0, 3.0]]).tolist()
    [[2.0], [3.0]]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        moments, extremes = blocks.aggregate(
            lambda block: (Moments.of(block.X), Extremes.of(block.X)), lambda a, b: (a[0] + b[0], a[1] + b[1])
        )
        self.n_features_in_ = len(moments.mean)
        spread = extremes.high - extremes.low
        self.variances_ = np.nanmin([moments.variance, spread], axis=0) if self.threshold == 0 else moments.variance
        if not (self.variances_ > self.threshold).any():
            raise InvalidProgram(
                f"no feature varies by more than {self.threshold}. Lower the threshold of VarianceThreshold."
            )


def moments_by_class(block: Any) -> dict[Any, Moments]:
    """Return the moments of the rows of every class."""
    return {label: Moments.of(block.X[block.y == label]) for label in np.unique(block.y).tolist()}


def merged_classes(one: dict[Any, Moments], other: dict[Any, Moments]) -> dict[Any, Moments]:
    """Merge by class."""
    shared = {label: one[label] + other[label] for label in one.keys() & other.keys()}
    return {**one, **other, **shared}


def anova(blocks: BlockSet) -> tuple[Any, Any]:
    """Return the F value of every feature and its p value, as ``f_classif`` of scikit-learn."""
    classes = blocks.aggregate(moments_by_class, merged_classes)
    parts = [classes[label] for label in sorted(classes)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    within = sum(part.squares for part in parts)
    free = len(parts) - 1, whole.rows - len(parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        F = ((whole.squares - within) / free[0]) / (within / free[1])
    return F, stats.f.sf(F, *free)


def correlation(blocks: BlockSet) -> tuple[Any, Any]:
    """Return the F value of every feature and its p value, as ``f_regression`` of scikit-learn."""

    def local(block: Any) -> Any:
        rows = np.column_stack([block.X, block.y])
        return np.vstack([np.full(rows.shape[1], len(rows)), rows.sum(axis=0)])

    # Products about the mean of everything, in a second pass, as sums of squares alone lose digits.
    counts, sums = blocks.aggregate(local, add)
    rows, mean = counts[0], sums / counts

    def centred(block: Any) -> Any:
        off = np.column_stack([block.X, block.y]) - mean
        return np.vstack([(off * off[:, -1:]).sum(axis=0), (off * off).sum(axis=0)])

    products, squares = blocks.aggregate(centred, add)
    with np.errstate(divide="ignore", invalid="ignore"):
        r = products[:-1] / np.sqrt(squares[:-1] * squares[-1])
        F = r**2 / (1 - r**2) * (rows - 2)
    return F, stats.f.sf(F, 1, rows - 2)


class SelectKBest(DistributedTransformer, feature_selection.SelectKBest):
    """Keeps the features that tell most of the label, by ``f_classif`` or ``f_regression``.

    >>> SelectKBest(k=1).fit_transform([[0.0, 1.0], [0.1, 5.0], [3.0, 4.0], [3.1, 1.0]], [0, 0, 1, 1]).tolist()
    [[0.0], [0.1], [3.0], [3.1]]
    """

    _needs_labels = True

    def _fit_blocks(self, blocks: BlockSet) -> None:
        tests = {feature_selection.f_classif: anova, feature_selection.f_regression: correlation}
        test = tests.get(self.score_func)
        if test is None:
            raise InvalidProgram(
                "SelectKBest: of distributed data score_func is f_classif or f_regression of scikit-learn."
            )
        self.scores_, self.pvalues_ = test(blocks)
        self.n_features_in_ = len(self.scores_)
