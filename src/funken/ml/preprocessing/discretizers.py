"""Discretizers and index encoders: numbers into bins, texts into indices; fitted by one pass over distributed data."""

from __future__ import annotations

from collections import Counter
from operator import add
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn import preprocessing
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_array

from funken.errors import InvalidProgram
from funken.ml.base import DistributedTransformer, OwnTransformer, width_of
from funken.ml.data import BlockSet, is_distributed, spreads
from funken.ml.preprocessing.transformers import Extremes, Quantiles, added_counts

HANDLE_INVALID = ("error", "skip", "keep")
ORDERS = ("arbitrary", "frequency_desc", "frequency_asc", "alphabet_desc", "alphabet_asc")


def check_choice(estimator: Any, name: str, choices: tuple[str, ...]) -> None:
    """Raise ``InvalidProgram`` if a parameter is none of some texts."""
    value = getattr(estimator, name)
    if value not in choices:
        raise InvalidProgram(
            f"{type(estimator).__name__}: {name} is {value!r}, but has to be one of {', '.join(choices)}."
        )


class InvalidHandling(OwnTransformer):
    """A transformer that raises at an invalid row (``error``), drops it (``skip``, of arrays only), or keeps it (``keep``)."""

    handle_invalid: str

    def fit(self, X: object, y: Any = None, **given: Any) -> Self:
        """Fit to arrays, or to distributed data."""
        self._check(X)
        return super().fit(X, y, **given)

    @spreads
    def transform(self, X: Any, **given: Any) -> Any:
        """Transform arrays; or pair the records of distributed data with their vectors."""
        self._check(X)
        return super().transform(X, **given)

    def _check(self, X: Any) -> None:
        check_choice(self, "handle_invalid", HANDLE_INVALID)
        if self.handle_invalid == "skip" and is_distributed(X):
            raise InvalidProgram(
                f"{type(self).__name__}: handle_invalid='skip' drops rows of arrays only. Filter distributed data, or set 'keep'."
            )


class Binarizer(DistributedTransformer, preprocessing.Binarizer):
    """Replaces numbers greater than a threshold by 1, others by 0; there is nothing to fit.

    >>> Binarizer(threshold=1.0).fit_transform([[0.5], [1.0], [1.5]]).tolist()
    [[0.0], [0.0], [1.0]]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        self.n_features_in_ = width_of(blocks)


class Bucketizer(OneToOneFeatureMixin, InvalidHandling):
    """Replaces numbers by the index of their bucket (Flink ML's ``Bucketizer``); there is nothing to fit.

    ``splits`` has the borders for each feature, or one list for all: at least three, in rising order. A bucket includes its
    lower border; the last one includes its upper border as well. A number outside, or NaN, raises (``error``), drops the row of
    an array (``skip``), or gets a bucket of its own behind the others (``keep``).

    >>> Bucketizer([0, 5, 10]).fit_transform([[0.0], [4.9], [5.0], [10.0]]).ravel().tolist()
    [0.0, 0.0, 1.0, 1.0]
    >>> Bucketizer([0, 5, 10], handle_invalid="keep").fit_transform([[11.0]]).tolist()
    [[2.0]]
    """

    def __init__(self, splits: Any, *, handle_invalid: str = "error") -> None:
        self.splits = splits
        self.handle_invalid = handle_invalid

    def _begin(self, width: int) -> None:
        one_list = not any(hasattr(each, "__len__") for each in self.splits)
        splits = [self.splits] * width if one_list else list(self.splits)
        if len(splits) != width:
            raise InvalidProgram(f"Bucketizer: splits has {len(splits)} lists for {width} features. Give one for each.")
        self.splits_ = [np.asarray(each, dtype=np.float64) for each in splits]
        for each in self.splits_:
            if len(each) < 3 or not (np.diff(each) > 0).all():
                raise InvalidProgram(f"Bucketizer: the splits {each.tolist()} are not three or more rising numbers.")
        self.n_features_in_ = width

    def _transform_array(self, X: Any) -> Any:
        values = check_array(X, ensure_all_finite=False, dtype=np.float64)
        found = np.empty_like(values)
        valid = np.ones(len(values), dtype=bool)
        for at, splits in enumerate(self.splits_):
            column = values[:, at]
            places = np.searchsorted(splits, column, side="right") - 1
            places = np.where(column == splits[-1], len(splits) - 2, places)
            outside = np.isnan(column) | (column < splits[0]) | (column > splits[-1])
            if outside.any() and self.handle_invalid == "error":
                wrong = column[outside][0]
                raise InvalidProgram(
                    f"Bucketizer: the number {wrong} of feature {at} is in no bucket of {splits.tolist()}. Add splits, for "
                    "example inf and -inf, or set handle_invalid to 'keep'."
                )
            found[:, at] = np.where(outside, len(splits) - 1, places)
            valid &= ~outside
        return found[valid] if self.handle_invalid == "skip" else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class KBinsDiscretizer(DistributedTransformer, preprocessing.KBinsDiscretizer):
    """Cuts each feature into bins of equal width (``uniform``) or equal counts (``quantile``).

    Of distributed data with more than 16,384 rows the quantiles are approximate; see ``Quantiles``.

    >>> KBinsDiscretizer(2, encode="ordinal", strategy="uniform").fit_transform([[0.0], [4.0], [10.0]]).ravel().tolist()
    [0.0, 0.0, 1.0]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        if self.strategy == "kmeans":
            raise InvalidProgram(
                "KBinsDiscretizer(strategy='kmeans') fits arrays only. Take 'quantile' or 'uniform' for distributed data."
            )
        if self.strategy == "uniform":
            extremes = blocks.aggregate(lambda block: Extremes.of(block.X), add)
            points = np.vstack([extremes.low, extremes.high])
        else:
            quantiles = blocks.aggregate(lambda block: Quantiles.of(block.X), add)
            exact = all(set(levels) == {0} for levels in quantiles.levels)
            columns = [levels[0] for levels in quantiles.levels]
            points = np.column_stack(columns) if exact else quantiles.at(np.linspace(0, 1, self._grid()))
        preprocessing.KBinsDiscretizer.fit(self, points)

    def _grid(self) -> int:
        """Return the number of points whose quantiles are those of the data, for every number of bins."""
        bins = np.unique(np.atleast_1d(self.n_bins))
        return int(np.lcm.reduce(bins)) + 1


class StringIndexer(OneToOneFeatureMixin, InvalidHandling):
    """Replaces texts and numbers by an index (Flink ML's ``StringIndexer``).

    ``order`` says which value has the index 0: the most or least frequent, the first or last in the alphabet. Equal counts go by
    the alphabet; ``arbitrary`` is the alphabet. A value that ``fit`` has not seen raises (``error``), drops the row of an array
    (``skip``), or gets the next index (``keep``). None and NaN count as not seen. ``max_index`` keeps that many values.

    >>> indexer = StringIndexer(order="frequency_desc").fit([["b"], ["a"], ["b"]])
    >>> indexer.transform([["a"], ["b"]]).tolist(), indexer.values_
    ([[1.0], [0.0]], [['b', 'a']])
    """

    def __init__(
        self, *, order: str = "arbitrary", handle_invalid: str = "error", max_index: int | None = None
    ) -> None:
        self.order = order
        self.handle_invalid = handle_invalid
        self.max_index = max_index

    def fit(self, X: object, y: Any = None, **given: Any) -> Self:
        """Check the parameters, and find the values of each feature."""
        check_choice(self, "order", ORDERS)
        if self.max_index is not None and self.max_index < 1:
            raise InvalidProgram(f"StringIndexer: max_index is {self.max_index}, but has to be 1 or more.")
        return super().fit(X, y, **given)

    def _fit_array(self, X: Any) -> None:
        self._take(_counts(np.asarray(X, dtype=object)))

    def _fit_blocks(self, blocks: BlockSet) -> None:
        self._take(blocks.aggregate(lambda block: _counts(block.X), added_counts))

    def _take(self, counts: list[Counter[Any]]) -> None:
        self.values_ = [self._ordered(each) for each in counts]
        self.n_features_in_ = len(counts)

    def _ordered(self, counts: Counter[Any]) -> list[Any]:
        alphabet = sorted(counts, key=lambda value: (isinstance(value, str), value))
        if self.order == "alphabet_desc":
            alphabet.reverse()
        elif self.order.startswith("frequency"):
            alphabet.sort(key=lambda value: counts[value] * (-1 if self.order.endswith("desc") else 1))
        return alphabet[: self.max_index]

    def _transform_array(self, X: Any) -> Any:
        values = np.asarray(X, dtype=object)
        found = np.empty(values.shape)
        for at, known in enumerate(self.values_):
            places = {value: place for place, value in enumerate(known)}
            for row, value in enumerate(values[:, at].tolist()):
                place = places.get(value)
                if place is None and self.handle_invalid == "error":
                    raise InvalidProgram(
                        f"StringIndexer: the value {value!r} of feature {at} was not there in fit(). Fit with more data, or set "
                        "handle_invalid to 'keep'."
                    )
                found[row, at] = np.nan if place is None else place
            if self.handle_invalid == "keep":
                found[np.isnan(found[:, at]), at] = len(known)
        return found[~np.isnan(found).any(axis=1)] if self.handle_invalid == "skip" else found

    def inverse_transform(self, X: Any) -> Any:
        """Return the values with these indices; see ``IndexToString``."""
        return IndexToString(self.values_).fit_transform(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


class IndexToString(OneToOneFeatureMixin, OwnTransformer):
    """Replaces indices by the values that a ``StringIndexer`` has found; there is nothing to fit.

    >>> IndexToString([["b", "a"]]).fit_transform([[1.0], [0.0]]).tolist()
    [['a'], ['b']]
    """

    def __init__(self, values: Any) -> None:
        self.values = values

    def _begin(self, width: int) -> None:
        if len(self.values) != width:
            raise InvalidProgram(f"IndexToString: values has {len(self.values)} lists, but there are {width} features.")
        self.n_features_in_ = width

    def _transform_array(self, X: Any) -> Any:
        places = np.asarray(X, dtype=np.float64)
        found = np.empty(places.shape, dtype=object)
        for at, known in enumerate(self.values):
            for row, place in enumerate(places[:, at].tolist()):
                if not (place.is_integer() and 0 <= place < len(known)):
                    raise InvalidProgram(
                        f"IndexToString: feature {at} has {place}, but its indices are 0 to {len(known) - 1}."
                    )
                found[row, at] = known[int(place)]
        return found


def _counts(X: Any) -> list[Counter[Any]]:
    """Return the number of occurrences of each value of every feature, but for None and NaN."""
    dense = X.toarray() if sparse.issparse(X) else X
    return [Counter(value for value in column.tolist() if value is not None and value == value) for column in dense.T]  # noqa: PLR0124
