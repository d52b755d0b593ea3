"""The data of the benchmark, how a system hands over what it has learned, and how good that is.

Rows are made in blocks with seeds, so any number of them is the same each time. What is learned is judged here, by the same
figure for all systems, on the same data: the systems do not judge themselves.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

sys.path.insert(0, str(Path(__file__).parent.parent / "compare"))

from sessions import WrongAnswer

ALGORITHMS = ("logistic", "kmeans", "als")
FEATURES, CLUSTERS, RANK = 10, 8, 10
NAMES = [f"f{n}" for n in range(FEATURES)]
C = 1.0  # of the logistic regression: the inverse of the penalty, over all rows
PASSES = 20
ALS_PASSES, ALS_PENALTY = 10, 0.05
_BLOCK = 1 << 17


def _blocks(rows: int) -> list[tuple[int, int]]:
    return [(number, min(_BLOCK, rows - number * _BLOCK)) for number in range(-(-rows // _BLOCK))]


def _truth() -> tuple[np.ndarray, np.ndarray]:
    """Return the centres of the points, so near that k-means goes on moving, and the coefficients of their labels."""
    fixed = np.random.default_rng(5)
    return fixed.normal(0, 0.6, (CLUSTERS, FEATURES)), fixed.normal(0, 0.4, FEATURES)


def write_points(rows: int, path: Path) -> None:
    """Write points around eight centres, with a label that a logistic model gives them, by chance."""
    centers, weights = _truth()
    writer = None
    for number, count in _blocks(rows):
        chance = np.random.default_rng([7, number])
        points = centers[chance.integers(0, CLUSTERS, count)] + chance.normal(0, 1, (count, FEATURES))
        label = chance.random(count) < 1 / (1 + np.exp(-(points @ weights + 0.3)))
        columns = {name: points[:, place] for place, name in enumerate(NAMES)}
        table = pa.table(columns | {"label": label.astype(np.int64)})
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def write_ratings(rows: int, path: Path) -> None:
    """Write ratings by about 40 per user, of factors of rank 6 with noise."""
    users, items = max(20, rows // 40), max(20, rows // 400)
    fixed = np.random.default_rng(6)
    of_users, of_items = fixed.random((users, 6)), fixed.random((items, 6))
    writer = None
    for number, count in _blocks(rows):
        chance = np.random.default_rng([8, number])
        user, item = chance.integers(0, users, count), (items * chance.random(count) ** 2).astype(np.int64)
        rating = (of_users[user] * of_items[item]).sum(axis=1) + chance.normal(0, 0.1, count)
        table = pa.table({"user": user, "item": item, "rating": rating})
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def few(path: str) -> str:
    """Return the path of the few rows that are beside a file."""
    return f"{path}.few"


def read_points(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels."""
    table = parquet.read_table(path)
    return np.stack([table.column(name).to_numpy() for name in NAMES], axis=1), table.column("label").to_numpy()


def write_answer(folder: str, algorithm: str, **arrays: Any) -> None:
    """Write what was learned."""
    np.savez(Path(folder, f"{algorithm}.npz"), **arrays)


class Judge:
    """Computes the figure of what was learned, and raises ``WrongAnswer`` if it is not that of a good model."""

    def __init__(self, points: str, ratings: str, kept: Path | None = None) -> None:
        self._points, self._ratings, self._kept = points, ratings, kept
        self.best: dict[str, float] = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}

    def figure(self, folder: str, algorithm: str) -> tuple[str, float]:
        """Return the name of the figure, and its value; the best so far is what the others are compared with."""
        with np.load(Path(folder, f"{algorithm}.npz")) as learned:
            name, value = getattr(self, f"_{algorithm}")(dict(learned))
        best = self.best.get(algorithm, value)
        worse = {"logistic": 1e-4, "kmeans": 0.01, "als": 0.1}[algorithm]
        self.best[algorithm] = min(best, value)
        if self._kept is not None:
            self._kept.write_text(json.dumps(self.best))
        if not value <= best * (1 + worse):
            raise WrongAnswer(f"{algorithm}: {name} {value:.6g}, but another system has {best:.6g}")
        return name, value

    def _logistic(self, learned: dict[str, np.ndarray]) -> tuple[str, float]:
        """The objective of all systems: the mean loss and the penalty, which no other coefficients make less."""
        X, y = read_points(self._points)
        coef = learned["coef"].ravel()
        margin = (X @ coef + float(learned["intercept"].ravel()[0])) * (2 * y - 1)
        loss = float(np.logaddexp(0, -margin).mean() + coef @ coef / (2 * C * len(y)))
        if "logistic" not in self.best:  # at the minimum the gradient is nothing
            slope = -(2 * y - 1) / (1 + np.exp(margin))
            gradient = np.abs(np.append(X.T @ slope / len(y) + coef / (C * len(y)), slope.mean())).max()
            if gradient > 1e-3:
                raise WrongAnswer(f"logistic: the gradient has {gradient:.2g}, so the loss is not the least")
        return "loss", loss

    def _kmeans(self, learned: dict[str, np.ndarray]) -> tuple[str, float]:
        """The mean squared distance to the nearest centre; that of the centres of the points is not better."""
        if (passes := int(learned["passes"])) != PASSES:
            raise WrongAnswer(f"kmeans: {passes} iterations, but all systems do {PASSES}")
        inertia, right = self._inertia(learned["centers"]), self._inertia(_truth()[0])
        if inertia > 1.01 * right:
            raise WrongAnswer(
                f"kmeans: the mean squared distance is {inertia:.4g}; to the true centres it is {right:.4g}"
            )
        return "inertia", inertia

    def _inertia(self, centers: np.ndarray) -> float:
        X, _ = read_points(self._points)
        total = 0.0
        for begin in range(0, len(X), _BLOCK):
            block = X[begin : begin + _BLOCK]
            square = (block**2).sum(axis=1)[:, None] - 2 * block @ centers.T + (centers**2).sum(axis=1)
            total += float(square.min(axis=1).sum())
        return total / len(X)

    def _als(self, learned: dict[str, np.ndarray]) -> tuple[str, float]:
        """The root of the mean squared error over all ratings; ten passes bring the systems near each other, not to a minimum."""
        table = parquet.read_table(self._ratings)
        user, item, rating = (table.column(name).to_numpy() for name in ("user", "item", "rating"))
        predicted = np.empty(len(rating))
        for begin in range(0, len(rating), _BLOCK):
            part = slice(begin, begin + _BLOCK)
            predicted[part] = (learned["users"][user[part]] * learned["items"][item[part]]).sum(axis=1)
        error = float(np.sqrt(((predicted - rating) ** 2).mean()))
        if error > 0.17:
            raise WrongAnswer(f"als: the error is {error:.4g}; the noise in the ratings is 0.1")
        return "error", error


def dense(ids: Any, values: Any, count: int = 0) -> np.ndarray:
    """Return factors with a row for each id from 0 on."""
    ids, values = np.asarray(ids), np.asarray(values, dtype=np.float64)
    table = np.zeros((max(count, int(ids.max()) + 1), values.shape[1]))
    table[ids] = values
    return table
