"""Nearest neighbours, exactly. The rows that a model was fitted to stay where they are while only data sets ask for neighbours.

Then each block of records meets each block of rows, as in FlinkML's join: the k best of each pair of blocks are merged by block
of records. A task holds two blocks and what the cross keeps in managed memory, never all rows. Arrays, streams, frames, scores
and saved models need the rows in one place: they are gathered when that is first asked for, and scikit-learn does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import neighbors

from funken.dataset import DataSet, MapPartitionFunction
from funken.errors import InvalidProgram
from funken.ml.base import DistributedClassifier, DistributedEstimator, DistributedRegressor, Probabilities
from funken.ml.data.blocks import FeatureBlock, FieldLayout, block_of
from funken.ml.data.demands import Demands, demands_of
from funken.ml.data.sources import BlockSet

_ROWS = 1024
"""Records that ask for neighbours together: so many times k neighbours are what a pair of blocks hands on."""

Nearest = tuple[Any, Any, Any, Any]
"""Of records that ask: the distances, where the rows are, their labels (or None) and the rows themselves (or None)."""

_SPARE = 4
"""So many more candidates are looked at where distances are first found with a rounding error."""


def best(one: Nearest, other: Nearest, k: int) -> Nearest:
    """Return the nearest of two sets of neighbours; of equal distances, those that come first.

    >>> one, other = ((np.array([far]), np.array([at]), None, None) for far, at in (([1.0, 4.0], [0, 1]), ([2.0], [7])))
    >>> found = best(one, other, 2)
    >>> found[0].tolist(), found[1].tolist()
    ([[1.0, 2.0]], [[0, 7]])
    """
    distances, places = (np.concatenate([one[at], other[at]], axis=1) for at in (0, 1))
    order = np.lexsort((places, distances))[:, :k]

    def chosen(mine: Any, others: Any) -> Any:
        if mine is None:
            return None
        both = np.concatenate([mine, others], axis=1)
        return np.take_along_axis(both, order if both.ndim == 2 else order[:, :, None], axis=1)

    return chosen(one[0], other[0]), chosen(one[1], other[1]), chosen(one[2], other[2]), chosen(one[3], other[3])


class Asking(MapPartitionFunction):
    """Cuts records into blocks ``((task, number), records, features)``."""

    block_records = 4

    def __init__(self, fields: Any, demands: Demands) -> None:
        self._fields, self._demands = fields, demands

    def open(self, runtime_context: Any) -> None:
        """Find the task."""
        self._task = runtime_context.get_index_of_this_subtask()

    def map_partition(self, values: Iterable[Any]) -> Iterator[Any]:
        """Cut."""
        some: list[Any] = []
        number = 0
        for record in values:
            some.append(record)
            if len(some) == _ROWS:
                yield self._block(number, some)
                number, some = number + 1, []
        if some:
            yield self._block(number, some)

    def _block(self, number: int, records: list[Any]) -> Any:
        layout = FieldLayout(self._fields).resolve(records[0], self._demands.caller)
        return (self._task, number), records, block_of(records, layout, self._demands).X


class Numbered(MapPartitionFunction):
    """Gives each block of rows its place among all rows, the same in every run."""

    block_records = 4

    def open(self, runtime_context: Any) -> None:
        """Find the task."""
        self._task = runtime_context.get_index_of_this_subtask()

    def map_partition(self, values: Iterable[FeatureBlock]) -> Iterator[Any]:
        """Yield (place of the first row, block)."""
        place = self._task << 44
        for block in values:
            yield place, block
            place += len(block)


def by_products(kernel: Any) -> bool:
    """Whether scikit-learn finds these distances as ``|a|^2 - 2 a b + |b|^2``, whose rounding error is that of the squares."""
    metric, given = kernel["metric"], kernel["metric_params"]
    return not given and (metric in ("euclidean", "l2") or (metric == "minkowski" and kernel["p"] == 2))


def exact(X: Any, rows: Any, places: Any, k: int) -> tuple[Any, Any]:
    """Return the k nearest of candidates by their differences, and where they are; of equal distances, those that come first.

    >>> X, rows = np.array([[1e8]]), np.array([[1e8 + 2], [1e8 + 1], [1e8]])
    >>> [found.tolist() for found in exact(X, rows, np.array([[0, 1, 2]]), 2)]
    [[[0.0, 1.0]], [[2, 1]]]
    """
    if sparse.issparse(X) or sparse.issparse(rows):
        off = (
            sparse.csr_matrix(X)[np.repeat(np.arange(len(places)), places.shape[1])]
            - sparse.csr_matrix(rows)[places.ravel()]
        )
        squares = np.asarray(off.multiply(off).sum(axis=1)).reshape(places.shape)
    else:
        off = rows[places] - X[:, None, :]
        squares = np.einsum("ijk,ijk->ij", off, off)
    order = np.lexsort((places, squares))[:, :k]
    return np.sqrt(np.take_along_axis(squares, order, axis=1)), np.take_along_axis(places, order, axis=1)


class SearchBlock:
    """Finds the nearest rows of one block for the records of another."""

    def __init__(self, kernel: Any, k: int, rows: bool) -> None:
        self._kernel, self._k, self._rows = kernel, k, rows
        self._rounded = by_products(kernel)

    def __call__(self, asking: Any, known: Any) -> tuple[Any, Nearest]:
        """Search."""
        name, _, X = asking
        first, block = known
        searched = neighbors.NearestNeighbors(**self._kernel).fit(block.X)
        distances, places = searched.kneighbors(X, min(self._k + self._rounded * _SPARE, len(block)))
        if self._rounded:
            distances, places = exact(X, block.X, places, self._k)
        labels = None if block.y is None else block.y[places]
        rows = None
        if self._rows:
            dense = block.X.toarray() if sparse.issparse(block.X) else block.X
            rows = dense[places]
        return name, (distances, first + places, labels, rows)


class KeepBest:
    """Merges what was found for the same records."""

    def __init__(self, k: int) -> None:
        self._k = k

    def __call__(self, one: Any, other: Any) -> Any:
        """Merge."""
        return one[0], best(one[1], other[1], self._k)


class PairAnswers:
    """Pairs records with what is made of their neighbours."""

    def __init__(self, make: Callable[[Nearest], Iterable[Any]]) -> None:
        self._make = make

    def __call__(self, asking: Iterable[Any], found: Iterable[Any]) -> Iterator[Any]:
        """Yield the pairs."""
        ((_, records, _),) = asking
        ((_, nearest),) = found
        yield from zip(records, self._make(nearest), strict=True)


def _facts(block: FeatureBlock) -> tuple[int, set[int], set[Any]]:
    return len(block), {block.X.shape[1]}, set() if block.y is None else set(np.unique(block.y).tolist())


class NeighborsBase(DistributedEstimator):
    """What the estimators by neighbours share."""

    n_neighbors: int
    weights: Any
    _blocks: BlockSet | None = None

    def fit(self, X: Any, y: Any = None, **given: Any) -> Any:
        """Fit to arrays, or look at distributed data; its rows stay where they are."""
        self._blocks = None
        return super().fit(X, y, **given)

    def _fit_blocks(self, blocks: BlockSet) -> None:
        rows, widths, labels = blocks.aggregate(_facts, lambda a, b: (a[0] + b[0], a[1] | b[1], a[2] | b[2]))
        if len(widths) > 1:
            raise InvalidProgram(
                f"{type(self).__name__}.fit(): rows have different numbers of features, {sorted(widths)}."
            )
        self._blocks = blocks
        self.n_features_in_ = max(widths)
        self.n_samples_fit_ = rows
        self._learned(labels)

    def _learned(self, labels: set[Any]) -> None:
        """Take note of the labels that there are."""

    def gather(self) -> None:
        """Bring all rows into this process, if they are not there: they have to fit into its memory."""
        if self._blocks is not None:
            whole, self._blocks = self._blocks.gather(), None
            y = whole.y.astype(str) if whole.y is not None and whole.y.dtype == object else whole.y
            self._fit_rows(sparse.csr_matrix(whole.X) if sparse.issparse(whole.X) else whole.X, y)

    def _fit_rows(self, X: Any, y: Any) -> None:
        kernel = next(
            each for each in type(self).__mro__ if each.__module__.startswith("sklearn.") and "fit" in vars(each)
        )
        kernel.fit(self, X, y)  # type: ignore[attr-defined]

    def _spread(self, X: Any, method: str, output: str, kind: Callable[[], str]) -> Any:
        blocks = self._blocks
        if blocks is not None and isinstance(X, DataSet):
            env = blocks.data_set.get_execution_environment()
            if X.get_execution_environment() is env:
                return self._joined(X, blocks, self.n_neighbors, self._maker(method))
        self.gather()
        return super()._spread(X, method, output, kind)

    def _maker(self, method: str) -> Callable[[Nearest], Iterable[Any]]:
        raise NotImplementedError

    def _joined(self, X: DataSet, blocks: BlockSet, k: int, make: Any, rows: bool = False) -> DataSet:
        if k > self.n_samples_fit_:
            raise InvalidProgram(
                f"{type(self).__name__}: {k} neighbours are asked for, but there are {self.n_samples_fit_} rows. Ask for fewer."
            )
        given = self.get_params()  # type: ignore[attr-defined]
        kernel = {name: given[name] for name in ("metric", "p", "metric_params")} | {"algorithm": "brute"}
        demands = demands_of(self, "kneighbors" if rows else "predict", total=self.n_features_in_)
        asking = X.map_partition(Asking(self.fields_, demands)).name("records that ask")
        known = blocks.data_set.map_partition(Numbered()).name("rows")
        found = asking.cross(known).using(SearchBlock(kernel, k, rows)).name("nearest rows of a block")
        merged = found.group_by(0).reduce(KeepBest(k)).name("nearest rows")
        return asking.co_group(merged).where(0).equal_to(0).using(PairAnswers(make)).name("answers")

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy, or R squared; the rows are gathered."""
        self.gather()
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """Return distances and places of the nearest rows; for a data set, pairs (record, [(distance, row), ...])."""
        if isinstance(X, DataSet):
            blocks = self._blocks
            if blocks is None:
                raise InvalidProgram(
                    "kneighbors() of a data set needs a model that was fitted to one and has not gathered its rows. Fit it again."
                )
            return self._joined(X, blocks, n_neighbors or self.n_neighbors, _with_rows, rows=True)
        self.gather()
        return super().kneighbors(X, n_neighbors, return_distance)  # type: ignore[misc]

    def _saved(self) -> dict[str, Any]:
        """Return what a saved model consists of: the rows, as trees of them are made anew."""
        self.gather()
        y = getattr(self, "_y", None)
        y = self.classes_[y] if y is not None and hasattr(self, "classes_") else y
        return {"params": self.get_params(), "fields": self.fields_, "X": self._fit_X, "y": y}  # type: ignore[attr-defined]

    def _loaded(self, values: dict[str, Any]) -> None:
        """Fit to the rows of a saved model."""
        type(self).__init__(self, **values["params"])
        self._fit_rows(values["X"], values["y"])
        self.fields_ = values["fields"]

    def __getstate__(self) -> Any:
        self.gather()  # tasks of other programs know nothing of this data set
        return super().__getstate__()


def _with_rows(nearest: Nearest) -> Iterator[Any]:
    for distances, rows in zip(nearest[0].tolist(), nearest[3], strict=True):
        yield list(zip(distances, rows, strict=True))


def shares(weights: Any, distances: Any) -> Any:
    """Return how much each neighbour counts.

    >>> shares("distance", np.array([[0.5, 2.0], [0.0, 1.0]])).tolist()
    [[2.0, 0.5], [1.0, 0.0]]
    """
    if callable(weights):
        return weights(distances)
    if weights != "distance":
        return np.ones_like(distances)
    same = distances == 0
    with np.errstate(divide="ignore"):
        found = 1.0 / distances
    return np.where(same.any(axis=1)[:, None], same, found).astype(np.float64)


class Votes:
    """Makes classes of neighbours, or how probable each class is."""

    def __init__(self, classes: Any, weights: Any, probabilities: bool) -> None:
        self._classes, self._weights, self._probabilities = classes, weights, probabilities

    def __call__(self, nearest: Nearest) -> Iterable[Any]:
        """Count."""
        distances, _, labels, _ = nearest
        codes = np.searchsorted(self._classes, labels.astype(self._classes.dtype))
        votes = np.zeros((len(codes), len(self._classes)))
        np.add.at(votes, (np.arange(len(codes))[:, None], codes), shares(self._weights, distances))
        if not self._probabilities:
            chosen: list[Any] = self._classes[votes.argmax(axis=1)].tolist()
            return chosen
        total = votes.sum(axis=1, keepdims=True)
        return list(votes / np.where(total == 0, 1.0, total))


class Means:
    """Makes means of the numbers of neighbours."""

    def __init__(self, weights: Any) -> None:
        self._weights = weights

    def __call__(self, nearest: Nearest) -> Iterable[Any]:
        """Average."""
        weights = shares(self._weights, nearest[0])
        means: list[float] = ((weights * nearest[2]).sum(axis=1) / weights.sum(axis=1)).tolist()
        return means


class KNeighborsClassifier(NeighborsBase, Probabilities, DistributedClassifier, neighbors.KNeighborsClassifier):
    """Classifies by the nearest rows, which stay in their tasks as long as only data sets are classified.

    >>> KNeighborsClassifier(1).fit([[0.0], [9.0]], [0, 1]).predict([[2.0], [8.0]]).tolist()
    [0, 1]
    """

    def _learned(self, labels: set[Any]) -> None:
        names = sorted(labels)
        self.classes_ = np.array(names)

    def _maker(self, method: str) -> Callable[[Nearest], Iterable[Any]]:
        return Votes(self.classes_, self.weights, method == "predict_proba")

    def predict(self, X: Any, **given: Any) -> Any:
        """Return the class that the most, or the heaviest, neighbours have."""
        if not isinstance(X, DataSet):
            self.gather()
        return super().predict(X, **given)

    def predict_proba(self, X: Any) -> Any:
        """Return the share of each class among the neighbours."""
        if not isinstance(X, DataSet):
            self.gather()
        return super().predict_proba(X)


class KNeighborsRegressor(NeighborsBase, DistributedRegressor, neighbors.KNeighborsRegressor):
    """Predicts the mean of the nearest rows, which stay in their tasks as long as only data sets are predicted.

    >>> KNeighborsRegressor(1).fit([[0.0], [9.0]], [0.5, 1.5]).predict([[2.0], [8.0]]).tolist()
    [0.5, 1.5]
    """

    def _maker(self, method: str) -> Callable[[Nearest], Iterable[Any]]:
        return Means(self.weights)

    def predict(self, X: Any, **given: Any) -> Any:
        """Return the mean of the neighbours."""
        if not isinstance(X, DataSet):
            self.gather()
        return super().predict(X, **given)


class NearestNeighbors(NeighborsBase, neighbors.NearestNeighbors):
    """Finds the nearest rows.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> model = NearestNeighbors(n_neighbors=1).fit(env.from_elements((0.0, 1.0), (5.0, 5.0)))
    >>> [(point, near[0][1].tolist()) for point, near in model.kneighbors(env.from_elements((4.0, 4.5))).collect()]
    [((4.0, 4.5), [5.0, 5.0])]
    """

    def _maker(self, method: str) -> Callable[[Nearest], Iterable[Any]]:
        raise InvalidProgram("NearestNeighbors predicts nothing; kneighbors() finds the rows.")
