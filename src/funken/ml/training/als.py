"""Alternating least squares on an iteration: each task solves for the users, then for the items, that it owns.

Ratings are grouped by user and by item once, and stay in the tasks as sparse rows. A superstep gives all factors of items to
every task, solves for the users, gives those to every task, and solves for the items: so both tables of factors have to fit into
the memory of a task, and the ratings do not. All normal equations of a task are one sparse product and one batched solve.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import mod
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from funken import DataStream
from funken.dataset import DataSet, MapPartitionFunction
from funken.errors import InvalidProgram
from funken.ml.base import ApplyModel, applied
from funken.ml.data import BlockSet, Demands, FeatureBlock, FieldName, is_distributed, spreads

_CHUNK = 4096


@dataclass(frozen=True)
class Ratings:
    """The ratings of some users (or items): a row for each of ``ids``, a column per item (or user)."""

    ids: Any
    rows: Any


@dataclass(frozen=True)
class Factors:
    """The factors of some users or items."""

    side: str
    ids: Any
    values: Any


def solve_rows(rows: Any, fixed: Any, regularization: float, weighted: bool) -> Any:
    """Return the factors that fit rows of ratings best, given those of the columns.

    >>> rows = sparse.csr_array([[5.0, 3.0, 0.0], [4.0, 0.0, 1.0]])
    >>> fixed = np.array([[1.0, 0.5], [0.5, 1.0], [1.0, 1.0]])
    >>> solve_rows(rows, fixed, 0.1, True).round(6).tolist()
    [[3.560091, 1.337868], [2.925532, -0.957447]]
    """
    rank = fixed.shape[1]
    one, other = np.triu_indices(rank)
    whole_of = np.empty((rank, rank), dtype=np.int64)  # where a product of two factors is among those of the triangle
    whole_of[one, other] = whole_of[other, one] = np.arange(len(one))
    products = np.ascontiguousarray(fixed[:, one] * fixed[:, other])
    found = np.empty((rows.shape[0], rank))
    ones = np.ones(len(rows.data))
    for at in range(0, rows.shape[0], _CHUNK):
        bounds = rows.indptr[at : at + _CHUNK + 1]
        part, shape = slice(bounds[0], bounds[-1]), (len(bounds) - 1, rows.shape[1])
        some, seen = (
            sparse.csr_array((data[part], rows.indices[part], bounds - bounds[0]), shape=shape)
            for data in (rows.data, ones)
        )
        whole = np.take(seen @ products, whole_of, axis=1)
        counts = np.diff(bounds) if weighted else np.ones(shape[0])
        diagonal = np.arange(rank)
        whole[:, diagonal, diagonal] += regularization * np.maximum(counts, 1)[:, None]
        found[at : at + _CHUNK] = np.linalg.solve(whole, (some @ fixed)[:, :, None])[:, :, 0]
    return found


def grouped(owners: Any, columns: Any, ratings: Any, width: int) -> Ratings:
    """Return ratings as sparse rows, one per owner; several of one owner and column stay several.

    >>> found = grouped(np.array([7, 2, 7]), np.array([1, 0, 1]), np.array([3.0, 4.0, 5.0]), 2)
    >>> found.ids.tolist(), found.rows.indptr.tolist(), found.rows.indices.tolist(), found.rows.data.tolist()
    ([2, 7], [0, 1, 3], [0, 1, 1], [4.0, 3.0, 5.0])
    """
    # places by a table of what was seen, rows by counting (CSR to CSC): no sort; np.unique of the ids sorts them
    seen = np.zeros(int(owners.max()) + 1, dtype=bool)
    seen[owners] = True
    places = np.cumsum(seen, dtype=np.int64)[owners] - 1
    ids = np.flatnonzero(seen)
    count = len(owners)
    by_rating = sparse.csr_array((ratings, places, np.arange(count + 1)), shape=(count, len(ids)))
    by_owner = by_rating.tocsc()
    rows = sparse.csr_array((by_owner.data, columns[by_owner.indices], by_owner.indptr), shape=(len(ids), width))
    return Ratings(ids, rows)


def split(side: int, owners: int, values: Iterable[FeatureBlock]) -> Iterator[Any]:
    """Yield the ratings of blocks of (user, item, rating) by the owner of the user, or of the item."""
    for block in values:
        owner = block.X[:, side].astype(np.int64) % owners
        for at in np.unique(owner).tolist():
            yield at, block.X[owner == at]


def group(side: int, width: int, values: Iterable[Any]) -> Iterator[Ratings]:
    """Yield the ratings that a task owns as sparse rows, if there are any."""
    parts = [part for _, part in values]
    if parts:
        triples = np.concatenate(parts)
        owners, columns = (triples[:, each].astype(np.int64) for each in (side, 1 - side))
        yield grouped(owners, columns, triples[:, 2], width)


class Half(MapPartitionFunction):
    """Solves for the users or items of a task."""

    def __init__(self, model: ALS, side: str, fixed: int) -> None:
        self._rank, self._penalty, self._weighted = model.n_factors, model.regularization, model.weighted
        self._side, self._fixed = side, fixed

    def open(self, runtime_context: Any) -> None:
        """Put the other side's factors into one table."""
        others = [part for part in runtime_context.get_broadcast_variable("others") if part.side != self._side]
        self._others = np.zeros((self._fixed, self._rank))
        for part in others:
            self._others[part.ids] = part.values

    def map_partition(self, values: Iterable[Ratings]) -> Iterator[Factors]:
        """Yield the factors."""
        for ratings in values:
            found = solve_rows(ratings.rows, self._others, self._penalty, self._weighted)
            yield Factors(self._side, ratings.ids, found)


def drawn_factors(rank: int, seed: int, ratings: Ratings) -> Factors:
    """Draw the first factors of the items of a task: those of an item depend on the seed and the item only."""
    return Factors("item", ratings.ids, first_factors(ratings.ids, rank, seed))


def first_factors(ids: Any, rank: int, seed: int) -> Any:
    """Return factors that depend on the seed and each id only, so that they are the same with any parallelism.

    >>> bool((first_factors(np.array([1, 5]), 3, 7)[1] == first_factors(np.array([5]), 3, 7)[0]).all())
    True
    """
    drawn = np.random.default_rng(seed).random((int(ids.max()) + 1, rank))[ids] if len(ids) else np.empty((0, rank))
    return drawn / np.sqrt(rank)


class ALS(BaseEstimator):
    """Factorises ratings: ``fit`` to records (user, item, rating) with ids from 0; ``predict`` for records (user, item).

    ``weighted`` multiplies the penalty by the number of ratings of a user or item (ALS-WR, as Flink and Spark).

    >>> ratings = [(0, 0, 5.0), (0, 1, 3.0), (1, 0, 4.0), (1, 2, 1.0), (2, 1, 1.0), (2, 2, 5.0)]
    >>> model = ALS(n_factors=2, regularization=0.01, max_iter=20, random_state=1).fit(ratings)
    >>> model.predict([(0, 0), (2, 2)]).round().tolist()
    [5.0, 5.0]
    >>> [item for item, _ in model.recommend(0, 1)]
    [0]
    """

    def __init__(
        self,
        n_factors: int = 10,
        *,
        regularization: float = 0.1,
        max_iter: int = 10,
        weighted: bool = True,
        random_state: int | None = None,
    ) -> None:
        self.n_factors = n_factors
        self.regularization = regularization
        self.max_iter = max_iter
        self.weighted = weighted
        self.random_state = random_state

    def fit(self, X: object, y: Any = None, *, features: Iterable[FieldName] | None = None) -> ALS:
        """Fit to ratings: an array with three columns, or distributed data; ``features`` names its user, item and rating."""
        if self.n_factors < 1 or self.max_iter < 1 or not self.regularization > 0:
            raise InvalidProgram("ALS needs n_factors and max_iter of 1 or more, and a regularization above 0.")
        if is_distributed(X):
            blocks = BlockSet.of(X, None, None, features, Demands("ALS.fit()", numbers=True, finite=True))
        else:
            rows = np.asarray(X, dtype=np.float64)
            blocks = BlockSet.of_arrays(rows if y is None else np.column_stack([rows, np.asarray(y)]))
        low, high = blocks.aggregate(
            lambda block: _range(block.X), lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1]))
        )
        if len(low) != 3:
            raise InvalidProgram(
                f"ALS.fit(): a record has {len(low)} fields, not a user, an item and a rating. Name them: features=[...]."
            )
        if low[:2].min() < 0:
            raise InvalidProgram(
                "ALS.fit(): an id of a user or item is negative. Number them from 0, as OrdinalEncoder does."
            )
        users, items = int(high[0]) + 1, int(high[1]) + 1
        self._iterate(blocks, users, items)
        return self

    def _iterate(self, blocks: BlockSet, users: int, items: int) -> None:
        owners = blocks.parallelism
        by_user, by_item = (self._grouped(blocks, side, (users, items)[1 - side], owners) for side in (0, 1))
        loop = by_item.map(partial(drawn_factors, self.n_factors, self.random_state or 0)).iterate(self.max_iter)
        found = by_user.map_partition(Half(self, "user", items)).with_broadcast_set(loop, "others")
        following = by_item.map_partition(Half(self, "item", users)).with_broadcast_set(found, "others")
        parts = loop.close_with(found.union(following)).collect()
        self.user_factors_ = np.zeros((users, self.n_factors))
        self.item_factors_ = np.zeros((items, self.n_factors))
        for part in parts:
            (self.user_factors_ if part.side == "user" else self.item_factors_)[part.ids] = part.values
        self.n_iter_ = self.max_iter

    def _grouped(self, blocks: BlockSet, side: int, width: int, owners: int) -> DataSet:
        cut = blocks.data_set.map_partition(partial(split, side, owners)).partition_custom(mod, 0)
        return cut.map_partition(partial(group, side, width))

    @spreads
    def predict(self, X: Any) -> Any:
        """Return the ratings of records (user, item); 0 for a user or item without ratings. Pairs for distributed data."""
        if is_distributed(X):
            if isinstance(X, DataSet | DataStream):
                return applied(X, ApplyModel(self, "predict", (0, 1)))
            raise InvalidProgram(
                "ALS.predict() takes arrays, a DataSet or a DataStream. Use from_spark() for a DataFrame."
            )
        pairs = np.asarray(X)[:, :2].astype(np.int64)
        known = (
            (pairs >= 0).all(axis=1) & (pairs[:, 0] < len(self.user_factors_)) & (pairs[:, 1] < len(self.item_factors_))
        )
        found = np.zeros(len(pairs))
        users, items = pairs[known].T
        found[known] = np.einsum("ij,ij->i", self.user_factors_[users], self.item_factors_[items])
        return found

    def recommend(self, user: int, n: int = 10) -> list[tuple[int, float]]:
        """Return the ``n`` items with the highest predicted ratings, as (item, rating)."""
        ratings = self.item_factors_ @ self.user_factors_[user]
        return [(int(item), float(ratings[item])) for item in np.argsort(-ratings, kind="stable")[:n]]


def _range(X: Any) -> Any:
    return X.min(axis=0), X.max(axis=0)
