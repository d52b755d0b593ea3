"""Statistics that are merged: moments, extremes, quantiles. A missing number (NaN) is left out, as in scikit-learn."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

POINTS = 16384
"""Points that a summary of quantiles keeps per feature; with fewer rows it is exact."""


@dataclass(frozen=True)
class Moments:
    """Weight, mean and sum of squared deviations of every feature.

    >>> a, b = Moments.of(np.array([[1.0], [2.0]])), Moments.of(np.array([[6.0]]))
    >>> (a + b).mean, (a + b).variance, (a + b).rows
    (array([3.]), array([4.66666667]), 3)
    """

    rows: int
    weight: Any
    mean: Any
    squares: Any

    @staticmethod
    def of(X: Any, w: Any = None) -> Moments:
        """Return the moments of rows."""
        if sparse.issparse(X):
            weights = np.ones(X.shape[0]) if w is None else w
            total = np.full(X.shape[1], weights.sum())
            mean = (X.T @ weights) / total
            squares = X.multiply(X).T @ weights - total * mean**2
            return Moments(X.shape[0], total, mean, np.maximum(squares, 0.0))
        known = ~np.isnan(X)
        weights = known if w is None else known * w[:, None]
        total = weights.sum(axis=0).astype(np.float64)
        filled = np.where(known, X, 0.0)
        mean = (filled * weights).sum(axis=0) / np.where(total == 0, 1, total)
        off = np.where(known, filled - mean, 0.0)
        return Moments(X.shape[0], total, mean, (off * off * weights).sum(axis=0))

    def __add__(self, other: Moments) -> Moments:
        total = self.weight + other.weight
        share = other.weight / np.where(total == 0, 1, total)
        off = other.mean - self.mean
        squares = self.squares + other.squares + off * off * self.weight * share
        return Moments(self.rows + other.rows, total, self.mean + off * share, squares)

    @property
    def variance(self) -> Any:
        """Return the variance of the population."""
        return self.squares / np.where(self.weight == 0, 1, self.weight)


@dataclass(frozen=True)
class Extremes:
    """Least and greatest value of every feature.

    >>> (Extremes.of(np.array([[1.0], [np.nan]])) + Extremes.of(np.array([[-1.0]]))).low
    array([-1.])
    """

    rows: int
    low: Any
    high: Any

    @staticmethod
    def of(X: Any) -> Extremes:
        """Return the extremes of rows."""
        if sparse.issparse(X):
            return Extremes(X.shape[0], X.min(axis=0).toarray()[0], X.max(axis=0).toarray()[0])
        return Extremes(X.shape[0], np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0))

    def __add__(self, other: Extremes) -> Extremes:
        return Extremes(self.rows + other.rows, np.fmin(self.low, other.low), np.fmax(self.high, other.high))


def added_counts(one: list[Counter[Any]], other: list[Counter[Any]]) -> list[Counter[Any]]:
    """Return the sums of the counts of every feature."""
    return [a + b for a, b in zip(one, other, strict=True)]


@dataclass
class Quantiles:
    """A summary of every feature that gives quantiles: exact up to ``POINTS`` rows.

    With more, two summaries of a level become one of the next, of which every second point is kept; so a rank is wrong by
    at most ``levels / (2 * POINTS)`` of the rows: 0.03 % with 2^27 rows.

    >>> halves = [Quantiles.of(np.arange(n, n + 5.0)[:, None]) for n in (0, 5)]
    >>> (halves[0] + halves[1]).at([0.25, 0.5])
    array([[2.25],
           [4.5 ]])
    """

    levels: list[dict[int, Any]] = field(default_factory=list)

    @staticmethod
    def of(X: Any) -> Quantiles:
        """Summarise rows."""
        dense = X.toarray() if sparse.issparse(X) else X
        return Quantiles([{0: column[~np.isnan(column)]} for column in dense.T])

    def __add__(self, other: Quantiles) -> Quantiles:
        return Quantiles([_merged(mine, others) for mine, others in zip(self.levels, other.levels, strict=True)])

    def at(self, quantiles: Any) -> Any:
        """Return quantiles, interpolated linearly: a row for each, a column per feature."""
        return np.array([_quantiles(levels, np.asarray(quantiles)) for levels in self.levels]).T


def _merged(one: dict[int, Any], other: dict[int, Any]) -> dict[int, Any]:
    found = {
        level: np.concatenate([part[level] for part in (one, other) if level in part])
        for level in sorted(one.keys() | other.keys())
    }
    level = 0
    while level <= max(found):
        points = found.get(level, np.empty(0))
        if len(points) > POINTS:
            points = np.sort(points)
            odd = points[-1:] if len(points) % 2 else points[:0]
            half = points[: len(points) // 2 * 2][level % 2 :: 2]
            found[level] = odd
            found[level + 1] = np.concatenate([found.get(level + 1, points[:0]), half])
        level += 1
    return found


def _quantiles(levels: dict[int, Any], quantiles: Any) -> Any:
    values = np.concatenate(list(levels.values()))
    if not len(values):
        return np.full(len(quantiles), np.nan)
    counts = np.concatenate([np.full(len(points), 2.0**level) for level, points in levels.items()])
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    ranks = np.cumsum(counts) - (counts + 1) / 2  # of its middle, from 0
    return np.interp(quantiles * (counts.sum() - 1), ranks, values)
