"""Vectors made of fields: assembled, cut, hashed; and min-hashes of sets, which find similar ones without comparing all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import feature_extraction
from sklearn.utils.validation import check_array, check_is_fitted

from funken.dataset import DataSet
from funken.errors import InvalidProgram
from funken.ml.base import OwnTransformer
from funken.ml.data import Demands, FieldLayout, block_of, demands_of
from funken.ml.preprocessing.discretizers import InvalidHandling

PRIME = 2038074743
"""The prime of Flink ML's and Spark's min-hashes."""


class VectorAssembler(InvalidHandling):
    """Puts fields, which are numbers or vectors, together into one vector; there is nothing to fit.

    A vector with NaN raises (``error``), is dropped from an array (``skip``), or stays (``keep``).

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
    >>> data = env.from_elements((1.0, [2.0, 3.0], "a"))
    >>> VectorAssembler().fit(data, features=[0, 1]).transform(data).collect()
    [((1.0, [2.0, 3.0], 'a'), array([1., 2., 3.]))]
    """

    def __init__(self, *, handle_invalid: str = "error") -> None:
        self.handle_invalid = handle_invalid

    def _begin(self, width: int) -> None:
        self.n_features_in_ = width

    def _transform_array(self, X: Any) -> Any:
        values = check_array(X, ensure_all_finite=False, dtype=np.float64)
        missing = np.isnan(values).any(axis=1)
        if missing.any() and self.handle_invalid == "error":
            raise InvalidProgram(
                f"VectorAssembler: the row {values[missing][0].tolist()} has NaN. Impute it before (SimpleImputer), or set "
                "handle_invalid to 'keep'."
            )
        return values[~missing] if self.handle_invalid == "skip" else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class VectorSlicer(OwnTransformer):
    """Takes some elements of vectors, by their places; there is nothing to fit.

    >>> VectorSlicer([2, 0]).fit_transform([[1.0, 2.0, 3.0]]).tolist()
    [[3.0, 1.0]]
    """

    def __init__(self, indices: Any) -> None:
        self.indices = indices

    def _begin(self, width: int) -> None:
        wrong = [each for each in self.indices if not 0 <= each < width]
        if wrong or not len(self.indices) or len(set(self.indices)) != len(self.indices):
            raise InvalidProgram(
                f"VectorSlicer: the indices {list(self.indices)} have to be distinct, one at least, and from 0 to {width - 1}."
            )
        self.n_features_in_ = width

    def _transform_array(self, X: Any) -> Any:
        values = X if sparse.issparse(X) else np.asarray(X)
        return values[:, list(self.indices)]


class FeatureHasher(OwnTransformer):
    """Hashes fields into one sparse vector (Flink ML's ``FeatureHasher``, by scikit-learn's); there is nothing to fit.

    A number adds its value at the hash of the field's name; a text, a bool, or a field in ``categorical`` adds 1 at the hash of
    ``name=value``. Records are dicts, or have fields.

    >>> FeatureHasher(8).fit_transform([{"city": "Rome", "age": 3.0}]).data.tolist()
    [3.0, 1.0]
    """

    def __init__(self, n_features: int = 2**18, *, categorical: Any = ()) -> None:
        self.n_features = n_features
        self.categorical = categorical

    def _fit_array(self, X: Any) -> None:
        self._begin(0)  # dicts have no width

    def _begin(self, width: int) -> None:
        if self.n_features < 1:
            raise InvalidProgram(f"FeatureHasher: n_features is {self.n_features}, but has to be 1 or more.")
        self.is_fitted_ = True

    def _transform_array(self, X: Any) -> Any:
        rows = X if isinstance(X, list) and X and isinstance(X[0], dict) else self._named(X)
        hasher = feature_extraction.FeatureHasher(self.n_features, input_type="pair", alternate_sign=False)
        return hasher.transform(
            [self._pair(name, value) for name, value in row.items() if value is not None] for row in rows
        )

    def _pair(self, name: Any, value: Any) -> tuple[str, float]:
        if isinstance(value, str | bool | np.bool_) or name in self.categorical:
            whole = isinstance(value, int | float) and float(value).is_integer()  # a column of ints may come as floats
            return f"{name}={int(value) if whole and not isinstance(value, bool) else value}", 1.0
        return str(name), float(value)

    def _named(self, X: Any) -> Iterator[dict[Any, Any]]:
        values = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=object)
        names = self.fields_ or range(values.shape[1])
        if len(names) != values.shape[1]:
            raise InvalidProgram(
                f"FeatureHasher: {values.shape[1]} numbers for {len(names)} fields. Leave vectors out."
            )
        return (dict(zip(names, row, strict=True)) for row in values.tolist())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.dict = True
        return tags


class MinHashLSH(OwnTransformer):
    """Min-hashes of sets: similar sets have equal hashes with a probability that is their Jaccard similarity (Broder, 1997).

    A vector is the set of the places where it is not 0. Each of ``tables`` tables has ``functions`` hashes; two sets are
    candidates if all hashes of one table are equal. More tables find more, more functions per table compare less.

    >>> lsh = MinHashLSH(tables=5, seed=1).fit([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    >>> lsh.transform([[1.0, 1.0, 0.0]]).shape, lsh.distance([1.0, 1.0, 0.0], [0.0, 1.0, 0.0])
    ((1, 5), 0.5)
    """

    def __init__(self, *, tables: int = 1, functions: int = 1, seed: int | None = None) -> None:
        self.tables = tables
        self.functions = functions
        self.seed = seed

    def _begin(self, width: int) -> None:
        if self.tables < 1 or self.functions < 1:
            raise InvalidProgram("MinHashLSH: tables and functions have to be 1 or more.")
        chance = np.random.default_rng(self.seed)
        count = self.tables * self.functions
        self.factors_ = chance.integers(1, PRIME, count)
        self.offsets_ = chance.integers(0, PRIME, count)
        self.n_features_in_ = width

    def _transform_array(self, X: Any) -> Any:
        rows = sparse.csr_matrix(X)
        rows.eliminate_zeros()
        found = np.empty((rows.shape[0], len(self.factors_)))
        for row in range(rows.shape[0]):
            places = rows.indices[rows.indptr[row] : rows.indptr[row + 1]].astype(np.int64)
            if not len(places):
                raise InvalidProgram(
                    "MinHashLSH: a vector of zeros is the empty set, which has no min-hash. Filter such records."
                )
            found[row] = (((1 + places)[:, None] * self.factors_ + self.offsets_) % PRIME).min(axis=0)
        return found

    def distance(self, one: Any, other: Any) -> float:
        """Return the Jaccard distance of two vectors: 0 for equal sets, 1 for disjoint ones."""
        a, b = (set(np.flatnonzero(_dense(each)).tolist()) for each in (one, other))
        return 1.0 - len(a & b) / len(a | b) if a | b else 0.0

    def _hashed(self) -> Hashed:
        return partial(_hashed, self, demands_of(self, "transform", total=self.n_features_in_))

    def approx_nearest_neighbors(self, data: DataSet, key: Any, k: int) -> list[tuple[Any, float]]:
        """Return up to ``k`` records of a fitted data set that are candidates for a vector, with distances, nearest first."""
        check_is_fitted(self)
        if k < 1:
            raise InvalidProgram(f"MinHashLSH: k is {k}, but has to be 1 or more.")
        own = _keys(self.transform(np.atleast_2d(_dense(key))), self.functions)[0]
        found = data.flat_map(partial(_candidates, self._hashed(), self, set(own), _dense(key))).collect()
        return sorted(found, key=lambda pair: pair[1])[:k]

    def approx_similarity_join(self, one: DataSet, other: DataSet, threshold: float) -> DataSet:
        """Return pairs of records below a Jaccard distance, as ``(record, record, distance)``, as far as they are candidates."""
        check_is_fitted(self)
        left, right = (each.flat_map(partial(_under_hashes, self._hashed())) for each in (one, other))
        similar: DataSet = left.join(right).where(0).equal_to(0).using(partial(_similar, self, threshold))
        return similar


Hashed = Callable[[Any], tuple[Any, list[tuple[int, ...]]]]
"""Returns the vector of a record, and its hash in each table."""


def _dense(vector: Any) -> Any:
    return vector.toarray().ravel() if sparse.issparse(vector) else np.asarray(vector, dtype=np.float64)


def _keys(hashes: Any, functions: int) -> list[list[tuple[int, ...]]]:
    """Return the hashes of rows by table, each with the number of the table."""
    tables = hashes.astype(np.int64).reshape(len(hashes), -1, functions).tolist()
    return [[(number, *table) for number, table in enumerate(row)] for row in tables]


def _hashed(lsh: MinHashLSH, demands: Demands, record: Any) -> tuple[Any, list[tuple[int, ...]]]:
    """Return the vector of a record, and its hash in each table."""
    X = block_of([record], FieldLayout(lsh.fields_).resolve(record, demands.caller), demands).X
    return _dense(X[0]), _keys(lsh.transform(X), lsh.functions)[0]


def _under_hashes(hashed: Hashed, record: Any) -> Iterator[Any]:
    """Yield ``(hash, record, vector, all hashes)`` for the hash in each table."""
    vector, keys = hashed(record)
    for key in keys:
        yield key, record, vector, keys


def _candidates(hashed: Hashed, lsh: MinHashLSH, own: set[tuple[int, ...]], vector: Any, record: Any) -> Iterator[Any]:
    """Yield a record that shares the hash of a table with a vector, with its distance."""
    other, keys = hashed(record)
    if not own.isdisjoint(keys):
        yield record, lsh.distance(other, vector)


def _similar(lsh: MinHashLSH, threshold: float, first: Any, second: Any) -> Iterator[Any]:
    """Yield two candidates that are similar, with their distance, once: in the first table in which their hashes are equal."""
    key, record, vector, keys = first
    if key != next(mine for mine, others in zip(keys, second[3], strict=True) if mine == others):
        return
    distance = lsh.distance(vector, second[2])
    if distance < threshold:
        yield record, second[1], distance
