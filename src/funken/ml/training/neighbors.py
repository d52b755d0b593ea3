"""Neighbours, clusters and ensembles of trees.

Nearest neighbours, exactly. The rows that a model was fitted to stay where they are while only data sets ask for neighbours.

Then each block of records meets each block of rows, as in FlinkML's join: the k best of each pair of blocks are merged by block
of records. A task holds two blocks and what the cross keeps in managed memory, never all rows. Arrays, streams, frames, scores
and saved models need the rows in one place: they are gathered when that is first asked for, and scikit-learn does the rest.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn import cluster, neighbors
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning

from funken.dataset import DataSet
from funken.errors import InvalidProgram
from funken.ml.base import (
    DistributedClassifier,
    DistributedEstimator,
    DistributedPredictor,
    DistributedRegressor,
    DistributedTransformer,
    Probabilities,
)
from funken.ml.data import (
    BlockSet,
    BlocksOfTask,
    Demands,
    FeatureBlock,
    FieldLayout,
    OfTask,
    block_of,
    concatenated,
    demands_of,
    is_distributed,
    spreads,
)
from funken.ml.preprocessing.transformers import Moments
from funken.ml.training.linear import Place, Sums, solve
from funken.types.callables import T

_ROWS = 1024
"""Records that ask for neighbours together: a pair of blocks hands on so many times k neighbours."""

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


def _asking(fields: Any, demands: Demands, task: int, values: Iterable[Any]) -> Iterator[Any]:
    """Yield blocks ``((task, number), records, features)`` of the records."""
    iterator = iter(values)
    for number in count():
        records = list(islice(iterator, _ROWS))
        if not records:
            return
        layout = FieldLayout(fields).resolve(records[0], demands.caller)
        yield (task, number), records, block_of(records, layout, demands).X


def _numbered(task: int, values: Iterable[FeatureBlock]) -> Iterator[Any]:
    """Yield (place of the first row, block) for the blocks of a task: the same in every run."""
    place = task << 44
    for block in values:
        yield place, block
        place += len(block)


def by_products(kernel: Any) -> bool:
    """Return True if scikit-learn computes distances as ``|a|^2 - 2 a b + |b|^2``, with the squares' rounding error."""
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


def keep_best(k: int, one: Any, other: Any) -> Any:
    """Merge the results for the same records."""
    return one[0], best(one[1], other[1], k)


def pair_answers(
    make: Callable[[Nearest], Iterable[Any]], asking: Iterable[Any], found: Iterable[Any]
) -> Iterator[Any]:
    """Pair records with results made of their neighbours."""
    ((_, records, _),) = asking
    ((_, nearest),) = found
    yield from zip(records, make(nearest), strict=True)


def _facts(block: FeatureBlock) -> tuple[int, set[int], set[Any]]:
    return len(block), {block.X.shape[1]}, set() if block.y is None else set(np.unique(block.y).tolist())


class NeighborsBase(DistributedEstimator):
    """The base of the estimators by neighbours."""

    n_neighbors: int
    weights: Any
    _blocks: BlockSet | None = None

    def fit(self, X: object, y: Any = None, **given: Any) -> Self:
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
                f"{type(self).__name__}: {k} neighbours are requested, but there are {self.n_samples_fit_} rows. Ask for fewer."
            )
        given = self.get_params()  # type: ignore[attr-defined]
        kernel = {name: given[name] for name in ("metric", "p", "metric_params")} | {"algorithm": "brute"}
        demands = demands_of(self, "kneighbors" if rows else "predict", total=self.n_features_in_)
        asking = X.map_partition(BlocksOfTask(partial(_asking, self.fields_, demands))).name("records that ask")
        known = blocks.data_set.map_partition(BlocksOfTask(_numbered)).name("rows")
        found = asking.cross(known).using(SearchBlock(kernel, k, rows)).name("nearest rows of a block")
        merged = found.group_by(0).reduce(partial(keep_best, k)).name("nearest rows")
        return asking.co_group(merged).where(0).equal_to(0).using(partial(pair_answers, make)).name("answers")

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
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
        """Return the parts of a saved model: the rows, as trees of them are made anew."""
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
    """Return the weight of each neighbour.

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


def votes_of(classes: Any, weights: Any, probabilities: bool, nearest: Nearest) -> Iterable[Any]:
    """Return the classes of neighbours, or how probable each class is."""
    distances, _, labels, _ = nearest
    codes = np.searchsorted(classes, labels.astype(classes.dtype))
    votes = np.zeros((len(codes), len(classes)))
    np.add.at(votes, (np.arange(len(codes))[:, None], codes), shares(weights, distances))
    if not probabilities:
        chosen: list[Any] = classes[votes.argmax(axis=1)].tolist()
        return chosen
    total = votes.sum(axis=1, keepdims=True)
    return list(votes / np.where(total == 0, 1.0, total))


def means_of(weights: Any, nearest: Nearest) -> Iterable[Any]:
    """Return the means of the numbers of neighbours."""
    counts = shares(weights, nearest[0])
    means: list[float] = ((counts * nearest[2]).sum(axis=1) / counts.sum(axis=1)).tolist()
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
        return partial(votes_of, self.classes_, self.weights, method == "predict_proba")

    @spreads
    def predict(self, X: Any, **given: Any) -> Any:
        """Return the class that the most, or the heaviest, neighbours have."""
        if not isinstance(X, DataSet):
            self.gather()
        return super().predict(X, **given)

    @spreads
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
        return partial(means_of, self.weights)

    @spreads
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


# ---- k-means over the tasks: Lloyd's algorithm, begun by k-means|| (Bahmani et al. 2012), all in one iteration.
#
# A round of k-means|| is one pass: it draws exactly ``2 k`` rows by their distances, which needs no sum of
# distances before. Of many rows a round looks at a sample, another one each time: centres to begin with need no
# more, and a round compares a row with up to ten times as many as Lloyd's algorithm. Random choices are seeded by
# the task, the block and the pass, so a run with the same blocks gives the same clusters.


ROUNDS = 5
SAMPLE = 1 << 19
"""A round looks at about so many rows."""

_CHUNK = 8192
_FEW = 16


def nearest(X: Any, centers: Any) -> tuple[Any, Any]:
    """Return the place of the nearest centre of every row (the first of equal ones), and the squared distance.

    >>> nearest(np.array([[0.0], [9.0]]), np.array([[1.0], [7.0]]))
    (array([0, 1]), array([1., 4.]))
    """
    places = np.empty(X.shape[0], dtype=np.int64)
    found = np.empty(X.shape[0])
    lengths = (centers * centers).sum(axis=1)
    doubled = -2.0 * centers
    least = _least_by_center if len(centers) <= _FEW and not sparse.issparse(X) else _least_by_row
    for at in range(0, X.shape[0], _CHUNK):
        some = X[at : at + _CHUNK]
        places[at : at + _CHUNK], off = least(some, doubled, lengths)
        own = some.multiply(some).sum(axis=1) if sparse.issparse(some) else np.einsum("ij,ij->i", some, some)
        found[at : at + _CHUNK] = off + np.asarray(own).ravel()
    return places, np.maximum(found, 0.0)


def _least_by_center(some: Any, doubled: Any, lengths: Any) -> tuple[Any, Any]:
    # Hot: with 8 centres of 10 features a row costs 49 ns, by row 72; with 60 centres it is 270 to 180 (one core, NumPy 2).
    off = doubled @ some.T
    off += lengths[:, None]
    least = off[0]
    places = np.zeros(len(some), dtype=np.int32)
    for place in range(1, len(off)):
        np.copyto(places, place, where=off[place] < least)
        np.minimum(least, off[place], out=least)
    return places, least


def _least_by_row(some: Any, doubled: Any, lengths: Any) -> tuple[Any, Any]:
    off = some @ doubled.T
    off += lengths
    places = off.argmin(axis=1)
    return places, off[np.arange(len(places)), places]


@dataclass(frozen=True)
class Drawn:
    """Rows that were drawn with chances by weight, without replacement: of all rows of the tasks, those with the highest keys.

    Keys are ``log(u) / weight`` (Efraimidis and Spirakis 2006), so the draws of two tasks can be merged.

    >>> random = np.random.default_rng(1)
    >>> one, other = (Drawn.of(2, np.array([[at]]), np.array([weight]), random) for at, weight in ((1.0, 1e-9), (2.0, 5.0)))
    >>> ((one + other) + other).rows.tolist()
    [[2.0], [2.0]]
    """

    most: int
    keys: Any
    rows: Any

    @staticmethod
    def of(most: int, X: Any, weights: Any, random: np.random.Generator) -> Drawn:
        """Draw from the rows of a block; those of weight 0 never."""
        chances = random.random(
            len(weights)
        )  # one for every row: what is drawn does not depend on the weights of others
        some = np.flatnonzero(weights > 0)
        keys = np.log1p(-chances[some]) / weights[some]
        best = np.argsort(-keys, kind="stable")[:most] if len(keys) <= 2 * most else np.argpartition(-keys, most)[:most]
        rows = X[some[best]]
        return Drawn(most, keys[best], rows.toarray() if sparse.issparse(rows) else rows)

    def __add__(self, other: Drawn) -> Drawn:
        keys = np.concatenate([self.keys, other.keys])
        best = np.argsort(-keys, kind="stable")[: self.most]
        return Drawn(self.most, keys[best], np.concatenate([self.rows, other.rows])[best])


@dataclass(frozen=True)
class Clustering:
    """The progress of k-means: the pass decides the phase; until Lloyd's algorithm begins, centres are candidates."""

    phase: str = "moments"
    rounds: int = 0
    centers: Any = None
    share: float = 1.0
    cost: float = 0.0
    tol: float = 0.0
    shift: float = np.inf
    n_iter: int = 0
    done: bool = False


@dataclass(frozen=True)
class Lloyd:
    """The solver of k-means. ``init`` is an array of centres, ``"k-means++"`` (which is k-means|| here) or ``"random"``."""

    k: int
    init: Any
    tol: float
    max_iter: int
    seed: int

    @property
    def steps(self) -> int:
        """Return the most passes."""
        return self.max_iter + ROUNDS + 5

    def start(self) -> Clustering:
        """Begin with the moments, which the tolerance depends on."""
        return Clustering()

    def _random(self, state: Clustering, place: Place) -> np.random.Generator:
        return np.random.default_rng([self.seed, state.rounds, *place])

    def local(self, state: Clustering, block: FeatureBlock, place: Place) -> Sums:
        """Return the sums of a block that a phase needs."""
        X, w = block.X, block.weights
        match state.phase:
            case "moments":
                some = self._random(state, place)
                count = min(self.k if self.init == "random" else 1, len(block)) if isinstance(self.init, str) else 0
                rows = some.choice(len(block), count, replace=False)
                drawn = [(float(some.random()), row) for row in _rows(X, rows)]
                return {"moments": Moments.of(X, block.w), "drawn": drawn}
            case "candidates" | "weights":
                random = self._random(state, place)
                if state.share < 1.0:
                    # Hot: with all rows (1,000,000, 8 clusters), six rounds took 1.0 s of CPU time, 21 passes of Lloyd's 1.8 s.
                    seen = np.flatnonzero(random.random(len(block)) < state.share)
                    X, w = X[seen], w[seen]
                places, off = nearest(X, state.centers)
                if state.phase == "weights":
                    return {"weights": np.bincount(places, w, len(state.centers))}
                return {"drawn": Drawn.of(2 * self.k, X, w * off, random)}
        places, off = nearest(X, state.centers)
        # Hot: 6 ns per row of 10 features, a third of the product with a matrix by clusters.
        members = sparse.csr_array((w, places, np.arange(len(block) + 1)), shape=(len(block), len(state.centers)))
        sums = members.T @ X
        totals = np.bincount(places, w, len(state.centers))
        far = int(off.argmax()) if len(block) else 0
        return {
            "sums": sums.toarray() if sparse.issparse(sums) else sums,
            "totals": totals,
            "cost": float(w @ off),
            "far": [(float(off[far]), row) for row in _rows(X, np.array([far]))],
        }

    def update(self, state: Clustering, sums: Sums) -> Clustering:
        """Go to the next phase, or move the centres."""
        match state.phase:
            case "moments":
                return self._begun(state, sums)
            case "candidates":
                centers = np.vstack([state.centers, sums["drawn"].rows])
                rounds = state.rounds + 1
                return replace(
                    state, phase="weights" if rounds >= ROUNDS else "candidates", centers=centers, rounds=rounds
                )
            case "weights":
                return replace(state, phase="lloyd", centers=self._reduced(state.centers, sums["weights"]))
        return self._moved(state, sums)

    def _begun(self, state: Clustering, sums: Sums) -> Clustering:
        moments = sums["moments"]
        if moments.rows < self.k:
            raise InvalidProgram(f"KMeans: {moments.rows} records cannot make {self.k} clusters. Lower n_clusters.")
        tol = self.tol * float(moments.variance.mean())
        if not isinstance(self.init, str):
            return replace(state, phase="lloyd", centers=np.asarray(self.init, dtype=np.float64), tol=tol)
        drawn = [row for _, row in sorted(sums["drawn"], key=lambda each: each[0])]
        if self.init == "random":
            return replace(state, phase="lloyd", centers=np.vstack(drawn[: self.k]), tol=tol)
        share = min(1.0, SAMPLE / moments.rows)
        return replace(state, phase="candidates", centers=np.vstack(drawn[:1]), tol=tol, share=share)

    def _reduced(self, candidates: Any, weights: Any) -> Any:
        """Return k centres of the weighted candidates, by scikit-learn."""
        kept = candidates[weights > 0]
        if len(kept) < self.k:
            extra = candidates[: self.k - len(kept)]
            return np.vstack([kept, extra])[: self.k] if len(candidates) >= self.k else self._repeated(candidates)
        local = cluster.KMeans(self.k, n_init=5, random_state=self.seed % 2**32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
            return local.fit(kept, sample_weight=weights[weights > 0]).cluster_centers_

    def _repeated(self, candidates: Any) -> Any:
        return candidates[np.arange(self.k) % len(candidates)]

    def _moved(self, state: Clustering, sums: Sums) -> Clustering:
        totals = sums["totals"]
        centers = np.where(totals[:, None] > 0, sums["sums"] / np.where(totals == 0, 1, totals)[:, None], state.centers)
        far = [row for _, row in sorted(sums["far"], key=lambda each: -each[0])]
        for place, row in zip(np.flatnonzero(totals == 0), far, strict=False):
            centers[place] = row  # an empty cluster begins anew with the point that is farthest off
        shift = float(((centers - state.centers) ** 2).sum())
        if (
            state.shift <= state.tol or state.n_iter >= self.max_iter
        ):  # the pass was the one that measures the last centres
            return replace(state, cost=sums["cost"], done=True)
        return replace(state, centers=centers, shift=shift, n_iter=state.n_iter + 1, cost=sums["cost"])


def _rows(X: Any, rows: Any) -> list[Any]:
    some = X[rows]
    return list(some.toarray() if sparse.issparse(some) else some)


class KMeans(DistributedPredictor, DistributedTransformer, cluster.KMeans):
    """Finds ``n_clusters`` centres.

    Of distributed data, ``init="k-means++"`` is k-means||, there is one start, and no ``labels_``: ``predict`` gives them.

    >>> model = KMeans(2, n_init=1, random_state=0).fit([[0.0], [0.2], [9.0], [9.2]])
    >>> sorted(model.cluster_centers_.ravel().round(3).tolist())
    [0.1, 9.1]
    """

    def fit_predict(
        self, X: T, y: object = None, sample_weight: object = None, features: Iterable[str | int] | None = None
    ) -> T | np.ndarray:
        """Return the cluster of each row; of a data set, the pairs of records and clusters."""
        self.fit(X, y, features=features, sample_weight=sample_weight)
        found: T | np.ndarray = self.predict(X) if is_distributed(X) else self.labels_
        return found

    def _fit_blocks(self, blocks: BlockSet) -> None:
        if callable(self.init):
            raise InvalidProgram("KMeans: of distributed data init is 'k-means++', 'random' or an array of centres.")
        init = self.init if isinstance(self.init, str) else np.asarray(self.init, dtype=np.float64)
        if not isinstance(init, str) and len(init) != self.n_clusters:
            raise InvalidProgram(f"KMeans: init has {len(init)} centres, but n_clusters is {self.n_clusters}.")
        seed = self.random_state if isinstance(self.random_state, int) else np.random.default_rng().integers(2**31)
        state = solve(blocks, Lloyd(self.n_clusters, init, self.tol, self.max_iter, int(seed)))
        self.cluster_centers_ = state.centers
        self.inertia_ = state.cost
        self.n_iter_ = state.n_iter
        self.n_features_in_ = state.centers.shape[1]
        self._n_features_out = len(state.centers)
        self._n_threads = 1


# ---- Agglomerative clustering: scikit-learn's. It needs all distances, so the rows are gathered in this process.


MOST_ROWS = 30_000
"""More rows are refused: their distances would need more than 7 GB."""


class AgglomerativeClustering(DistributedEstimator, cluster.AgglomerativeClustering):
    """Merges the two nearest clusters until there are ``n_clusters``; ``labels_`` has the cluster of each row.

    Distributed data is gathered; ``fit_predict`` of a data set pairs its records with their clusters.

    >>> AgglomerativeClustering(2).fit_predict([[0.0], [0.1], [9.0]]).tolist()
    [0, 0, 1]
    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> pairs = AgglomerativeClustering(2).fit_predict(env.from_elements((0.0, 1.0), (0.1, 1.0), (9.0, 9.0)))
    >>> [label for _, label in sorted(pairs.collect())]
    [0, 0, 1]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        self._fit_rows(blocks.gather().X)

    def _fit_rows(self, rows: Any) -> None:
        if rows.shape[0] > MOST_ROWS:
            raise InvalidProgram(
                f"AgglomerativeClustering: {rows.shape[0]} rows, but at most {MOST_ROWS} can be compared with each other. "
                "Cluster a sample, or begin with KMeans."
            )
        cluster.AgglomerativeClustering.fit(self, rows.toarray() if hasattr(rows, "toarray") else rows)

    def fit_predict(self, X: Any, y: Any = None, *, features: Any = None) -> Any:
        """Return the cluster of each row; of a data set, the pairs of records and clusters."""
        if not is_distributed(X):
            return super().fit_predict(X, y)
        if not isinstance(X, DataSet):
            raise InvalidProgram(
                "AgglomerativeClustering.fit_predict() takes arrays and data sets. Use fit() and labels_."
            )
        records = X.collect()
        demands = demands_of(self, "fit_predict")
        layout = FieldLayout(None if features is None else tuple(features)).resolve(records[0], demands.caller)
        self._fit_rows(block_of(records, layout, demands).X)
        labels = np.asarray(self.labels_).tolist()
        return X.get_execution_environment().from_collection(list(zip(records, labels, strict=True)))


# ---- Bagging over the tasks: an estimator of scikit-learn (or with its interface) per task, fitted to the rows of
# that task.


def _fitted(estimator: Any, seed: int | None, task: int, values: Iterable[FeatureBlock]) -> Iterator[Any]:
    """Yield the task, the number of its rows and a copy of the estimator fitted to them; nothing if there are none."""
    blocks = list(values)
    if blocks:
        rows = concatenated(blocks)
        model = clone(estimator)
        if seed is not None and "random_state" in model.get_params():
            model.set_params(random_state=seed + task)
        weights = {} if rows.w is None else {"sample_weight": rows.w}
        yield task, len(rows), model.fit(rows.X, rows.y, **weights)


class PartitionEnsemble(BaseEstimator):
    """The base of the two ensembles."""

    def __init__(self, estimator: Any = None, random_state: int | None = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def _fit_blocks(self, blocks: BlockSet) -> None:
        """Fit an estimator per task; those of more rows have more weight."""
        if self.estimator is None:
            raise InvalidProgram(
                f"{type(self).__name__} needs an estimator: one of scikit-learn, or with its interface."
            )
        spread = blocks.data_set.map_partition(OfTask(partial(_fitted, self.estimator, self.random_state)))
        fitted = sorted(spread.collect(), key=lambda part: part[0])
        if not fitted:
            raise InvalidProgram("fit(): the data has no record. Give one or more.")
        self.estimators_ = [model for _, _, model in fitted]
        self.weights_ = np.array([rows for _, rows, _ in fitted], dtype=np.float64)
        self.weights_ /= self.weights_.sum()
        self.n_features_in_ = self.estimators_[0].n_features_in_

    @property
    def feature_importances_(self) -> Any:
        """Return the mean of the importances that the estimators have."""
        return self.weights_ @ np.array([model.feature_importances_ for model in self.estimators_])


class _FitsArrays(PartitionEnsemble):
    def fit(self, X: object, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to arrays: one estimator."""
        self._fit_blocks(BlockSet.of_arrays(np.asarray(X), np.asarray(y), sample_weight))
        return self

    @spreads
    def predict(self, X: Any) -> Any:
        """Predict the weighted mean."""
        return self.weights_ @ np.array([model.predict(X) for model in self.estimators_])


class PartitionRegressor(DistributedRegressor, RegressorMixin, _FitsArrays):  # type: ignore[misc]
    """The mean of regressors, one per task.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> PartitionRegressor(DecisionTreeRegressor()).fit([[0.0], [1.0]], [2.0, 4.0]).predict([[0.9]])
    array([4.])
    """


class _Votes(_FitsArrays):
    def _fit_blocks(self, blocks: BlockSet) -> None:
        super()._fit_blocks(blocks)
        self.classes_ = np.unique(np.concatenate([model.classes_ for model in self.estimators_]))

    @spreads
    def predict_proba(self, X: Any) -> Any:
        """Return the weighted mean of the probabilities; a class that a task has not seen has 0 there."""
        found = np.zeros((len(X), len(self.classes_)))
        for model, weight in zip(self.estimators_, self.weights_, strict=True):
            found[:, np.searchsorted(self.classes_, model.classes_)] += weight * model.predict_proba(X)
        return found

    @spreads
    def predict(self, X: Any) -> Any:
        """Predict the most probable class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class PartitionClassifier(Probabilities, DistributedClassifier, ClassifierMixin, _Votes):  # type: ignore[misc]
    """A vote of classifiers, one per task: trees, forests, boosting.

    Each sees the rows of its task only: ``rebalance()`` data that comes in the order of its labels.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> PartitionClassifier(DecisionTreeClassifier()).fit([[0.0], [1.0]], ["a", "b"]).predict([[0.9]]).tolist()
    ['b']
    """
