"""scikit-learn on one core, the whole file in memory; it has no factorisation of ratings."""

from __future__ import annotations

import sys
from typing import Any

from protocol import measure
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from workload import CLUSTERS, PASSES, C, read_points


def main(points: str, ratings: str, folder: str, algorithms: list[str]) -> None:
    """Run the algorithms."""

    def logistic(path: str) -> dict[str, Any]:
        X, y = read_points(path)
        model = LogisticRegression(C=C, max_iter=100, tol=1e-6).fit(X, y)
        return {"coef": model.coef_, "intercept": model.intercept_}

    def kmeans(path: str) -> dict[str, Any]:
        X, _ = read_points(path)
        model = KMeans(CLUSTERS, n_init=1, max_iter=PASSES, tol=0.0, random_state=3).fit(X)
        return {"centers": model.cluster_centers_, "passes": model.n_iter_}

    measure({"logistic": logistic, "kmeans": kmeans}, algorithms, points, ratings, folder)


if __name__ == "__main__":
    points, ratings, _, folder, *algorithms = sys.argv[1:]
    main(points, ratings, folder, algorithms)
