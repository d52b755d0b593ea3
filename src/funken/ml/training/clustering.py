"""k-means over the tasks: Lloyd's algorithm, begun by k-means|| (Bahmani et al. 2012), all in one iteration.

A round of k-means|| is one pass: it draws exactly ``2 k`` rows by their distances, which needs no sum of distances before. Of
many rows a round looks at a sample, another one each time: centres to begin with need no more, and a round compares a row
with up to ten times as many as Lloyd's algorithm.
Random choices are seeded by the task, the block and the pass, so a run with the same blocks gives the same clusters.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import cluster
from sklearn.exceptions import ConvergenceWarning

from funken.errors import InvalidProgram
from funken.ml.base import DistributedPredictor, DistributedTransformer
from funken.ml.data.blocks import FeatureBlock
from funken.ml.data.sources import BlockSet
from funken.ml.preprocessing.statistics import Moments
from funken.ml.training.allreduce import Place, Sums, solve

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

    Keys are ``log(u) / weight`` (Efraimidis and Spirakis 2006), so what two tasks have drawn can be merged.

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
    """Where k-means stands: the pass decides the phase, and the centres are candidates until Lloyd's algorithm begins."""

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
        """Return what a phase needs of a block."""
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
