"""Transformers: scalers, statistics, selection of features, texts and encoders.

Scalers: scikit-learn's, fitted by one pass over distributed data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from operator import add
from typing import Any, Self

import numpy as np
from scipy import sparse, stats
from sklearn import feature_selection, impute, preprocessing
from sklearn.feature_extraction import text

from funken.errors import InvalidProgram
from funken.ml.base import DistributedEstimator, DistributedTransformer, width_of
from funken.ml.data import BlockSet, spreads

# ---- Statistics that are merged: moments, extremes, quantiles. A missing number (NaN) is left out, as in scikit-
# learn.


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
    """A summary of every feature for quantiles: exact up to ``POINTS`` rows.

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


def scale_of(spread: Any, negligible: Any = 0.0) -> Any:
    """Return the divisor: 1 where a feature is constant.

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


# ---- Feature selection: scikit-learn's, fitted by one pass over distributed data.


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


# ---- Vectorizers of text: scikit-learn's, fitted by one pass over distributed data. A record is a text, or has one
# text field.


def texts(X: Any) -> Any:
    """Return the texts of a column as a list."""
    if getattr(X, "ndim", 1) != 2:
        return X
    if X.shape[1] != 1:
        raise InvalidProgram(
            f"a vectorizer needs one text per record, but got {X.shape[1]} fields. Name one: features=[...]."
        )
    return X[:, 0].tolist()


class TextTransformer(DistributedTransformer):
    """A transformer of texts, which may stand in a column."""

    @spreads
    def transform(self, X: Any, *args: Any, **given: Any) -> Any:
        """Transform texts; or pair the records of distributed data with their vectors."""
        return super().transform(texts(X), *args, **given)

    def fit(self, X: object, y: Any = None, *, features: Iterable[str | int] | None = None, **given: Any) -> Self:
        """Fit to texts, or to distributed data."""
        return super().fit(texts(X), y, features=features, **given)

    @spreads
    def fit_transform(self, X: Any, y: Any = None, **given: Any) -> Any:
        """Fit, then transform."""
        return super().fit_transform(texts(X), y, **given)


class HashingVectorizer(TextTransformer, text.HashingVectorizer):
    """Counts words in columns by their hash; there is nothing to fit.

    >>> HashingVectorizer(n_features=8).transform(["to be or not to be"]).shape
    (1, 8)
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        pass


def vocabulary(analyzer: Any, block: Any) -> tuple[int, Counter[str], Counter[str]]:
    """Return the number of texts, the texts per word, and the occurrences per word."""
    documents: Counter[str] = Counter()
    occurrences: Counter[str] = Counter()
    for each in texts(block.X):
        words = analyzer(each)
        documents.update(set(words))
        occurrences.update(words)
    return len(block), documents, occurrences


def _joined(one: Any, other: Any) -> Any:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _limit(share: float, rows: int) -> float:
    return share if isinstance(share, int) else share * rows


class CountVectorizer(TextTransformer, text.CountVectorizer):
    """Counts words in a column each.

    >>> CountVectorizer().fit(["to be", "be"]).vocabulary_
    {'to': 1, 'be': 0}
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        self._words_of(blocks)

    def _words_of(self, blocks: BlockSet) -> tuple[int, Counter[str]]:
        if self.vocabulary is not None:
            self._validate_vocabulary()
            return 0, Counter()
        rows, documents, occurrences = blocks.aggregate(partial(vocabulary, self.build_analyzer()), _joined)
        low, high = _limit(self.min_df, rows), _limit(self.max_df, rows)
        kept = sorted(word for word, count in documents.items() if low <= count <= high)
        if self.max_features is not None:
            kept = sorted(sorted(kept, key=lambda word: -occurrences[word])[: self.max_features])
        if not kept:
            raise InvalidProgram(f"{type(self).__name__}: no word is left of the texts. Lower min_df, or raise max_df.")
        self.vocabulary_ = {word: place for place, word in enumerate(kept)}
        self.fixed_vocabulary_ = False
        return rows, documents


def document_frequencies(block: Any) -> Any:
    """Return the number of rows, and the number with each feature."""
    from scipy import sparse  # noqa: PLC0415 - slow to load

    rows = block.X if sparse.issparse(block.X) else sparse.csr_array(block.X)
    return np.concatenate([[len(block)], np.bincount(rows.indices, minlength=rows.shape[1])])


class TfidfTransformer(DistributedTransformer, text.TfidfTransformer):
    """Weighs counts of words by how few texts have them.

    >>> TfidfTransformer().fit([[1, 0], [1, 1]]).idf_.round(3).tolist()
    [1.0, 1.405]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        found = blocks.aggregate(document_frequencies, add)
        self.n_features_in_ = len(found) - 1
        if self.use_idf:
            smooth = float(self.smooth_idf)
            self.idf_ = np.log((found[0] + smooth) / (found[1:] + smooth)) + 1.0


class TfidfVectorizer(TextTransformer, text.TfidfVectorizer):
    """Counts words, and weighs them by how few texts have them.

    >>> TfidfVectorizer().fit_transform(["to be", "be"]).shape
    (2, 2)
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        rows, documents = CountVectorizer._words_of(self, blocks)
        if self.vocabulary is not None:
            raise InvalidProgram(
                "TfidfVectorizer with a vocabulary fits arrays only. Use CountVectorizer and TfidfTransformer."
            )
        self._check_params() if hasattr(self, "_check_params") else None
        self._tfidf = text.TfidfTransformer(
            norm=self.norm, use_idf=self.use_idf, smooth_idf=self.smooth_idf, sublinear_tf=self.sublinear_tf
        )
        counts = np.array([documents[word] for word in self.vocabulary_])
        self._tfidf.n_features_in_ = len(counts)
        smooth = float(self.smooth_idf)
        self._tfidf.idf_ = np.log((rows + smooth) / (counts + smooth)) + 1.0


# ---- Encoders of categories, and imputers: scikit-learn's, fitted by one pass over distributed data.


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

    def fit(self, X: object, y: Any = None, **given: Any) -> Self:
        """Fit to labels, or to the labels of distributed data."""
        if isinstance(X, list | tuple | np.ndarray):
            preprocessing.LabelEncoder.fit(self, X)
            return self
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
