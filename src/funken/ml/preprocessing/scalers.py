"""Scalers: scikit-learn's, fitted by one pass over distributed data."""

from __future__ import annotations

from operator import add
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import preprocessing

from funken.errors import InvalidProgram
from funken.ml.base import DistributedTransformer, width_of
from funken.ml.data.sources import BlockSet
from funken.ml.preprocessing.statistics import Extremes, Moments, Quantiles


def scale_of(spread: Any, negligible: Any = 0.0) -> Any:
    """Return what to divide by: 1 where a feature is constant.

    >>> scale_of(np.array([2.0, 0.0]))
    array([2., 1.])
    """
    return np.where(spread <= np.maximum(negligible, 10 * np.finfo(np.float64).eps), 1.0, spread)


class StandardScaler(DistributedTransformer, preprocessing.StandardScaler):
    """Centres features, and divides them by their standard deviation.

    >>> StandardScaler().fit_transform([[0.0], [2.0]]).tolist()
    [[-1.0], [1.0]]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        moments, is_sparse = blocks.aggregate(
            lambda block: (Moments.of(block.X, block.w), sparse.issparse(block.X)),
            lambda one, other: (one[0] + other[0], one[1]),
        )
        if is_sparse and self.with_mean:
            raise InvalidProgram(
                "StandardScaler cannot centre sparse vectors, as they would be dense. Set with_mean=False."
            )
        weight = moments.weight
        seen = weight.astype(np.int64) if np.all(weight == weight.astype(np.int64)) else weight
        self.n_features_in_ = len(moments.mean)
        self.n_samples_seen_ = seen[0] if np.ptp(seen) == 0 else seen
        self.mean_ = moments.mean
        self.var_ = moments.variance if self.with_std else None
        self.scale_ = None
        if self.with_std:
            noise = weight * np.finfo(np.float64).eps
            constant = moments.variance <= noise * moments.variance + (noise * moments.mean) ** 2
            self.scale_ = np.where(constant, 1.0, scale_of(np.sqrt(moments.variance)))


class MinMaxScaler(DistributedTransformer, preprocessing.MinMaxScaler):
    """Brings features into a range.

    >>> MinMaxScaler().fit_transform([[1.0], [2.0], [5.0]]).tolist()
    [[0.0], [0.25], [1.0]]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        extremes = blocks.aggregate(lambda block: Extremes.of(block.X), add)
        preprocessing.MinMaxScaler.fit(self, np.vstack([extremes.low, extremes.high]))
        self.n_samples_seen_ = extremes.rows


class MaxAbsScaler(DistributedTransformer, preprocessing.MaxAbsScaler):
    """Divides features by their greatest absolute value; sparse vectors stay so.

    >>> MaxAbsScaler().fit_transform([[1.0], [-4.0]]).tolist()
    [[0.25], [-1.0]]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        extremes = blocks.aggregate(lambda block: Extremes.of(block.X), add)
        preprocessing.MaxAbsScaler.fit(self, np.vstack([extremes.low, extremes.high]))
        self.n_samples_seen_ = extremes.rows


class RobustScaler(DistributedTransformer, preprocessing.RobustScaler):
    """Centres features by their median and divides them by a range of quantiles.

    Of distributed data with more than 16,384 rows the quantiles are approximate; see ``Quantiles``.

    >>> RobustScaler().fit_transform([[0.0], [1.0], [2.0], [3.0], [1000.0]]).tolist()[2]
    [0.0]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        if self.unit_variance:
            raise InvalidProgram(
                "RobustScaler(unit_variance=True) fits arrays only. Leave it out for distributed data."
            )
        low, high = self.quantile_range
        if not 0 <= low <= high <= 100:
            raise InvalidProgram(f"RobustScaler: the quantile range {self.quantile_range} is not within 0 to 100.")
        found = blocks.aggregate(lambda block: Quantiles.of(block.X), add).at([low / 100, 0.5, high / 100])
        self.n_features_in_ = found.shape[1]
        self.center_ = found[1] if self.with_centering else None
        self.scale_ = scale_of(found[2] - found[0]) if self.with_scaling else None


class Normalizer(DistributedTransformer, preprocessing.Normalizer):
    """Scales every row to length 1; there is nothing to fit.

    >>> Normalizer().fit_transform([[3.0, 4.0]]).tolist()
    [[0.6, 0.8]]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        self.n_features_in_ = width_of(blocks)


class PolynomialFeatures(DistributedTransformer, preprocessing.PolynomialFeatures):
    """Adds the products of features up to a degree.

    >>> PolynomialFeatures(2).fit_transform([[2.0, 3.0]]).tolist()
    [[1.0, 2.0, 3.0, 4.0, 6.0, 9.0]]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        preprocessing.PolynomialFeatures.fit(self, np.zeros((1, width_of(blocks))))
