"""funken.ml on Spark: a DataFrame of the file, estimators of scikit-learn's names."""

from __future__ import annotations

import sys
from typing import Any

from protocol import measure
from pyspark.sql import DataFrame, SparkSession
from workload import ALS_PASSES, ALS_PENALTY, CLUSTERS, NAMES, PASSES, RANK, C

from funken import Configuration, config, ml
from funken.dataset import ExecutionEnvironment

MANAGED = "2g"
"""Of each of the tasks; the heap of Spark MLlib's driver, which is all of its tasks, has 6 GB."""


def main(points: str, ratings: str, parallelism: int, folder: str, algorithms: list[str]) -> None:
    """Run the algorithms."""
    options = {"execution.target": "batch", "parallelism.default": parallelism, "execution.memory.managed": MANAGED}
    config.set_default_configuration(configuration := Configuration(options))
    ExecutionEnvironment.get_execution_environment(configuration).from_elements(1).count()  # starts the session
    spark = SparkSession.active()

    def read(path: str) -> DataFrame:
        return spark.read.parquet(path)

    def logistic(path: str) -> dict[str, Any]:
        model = ml.LogisticRegression(C=C, max_iter=100).fit(read(path), y="label")
        return {"coef": model.coef_, "intercept": model.intercept_}

    def kmeans(path: str) -> dict[str, Any]:
        model = ml.KMeans(CLUSTERS, n_init=1, max_iter=PASSES, tol=0.0, random_state=3)
        model.fit(read(path), features=NAMES)
        return {"centers": model.cluster_centers_, "passes": model.n_iter_}

    def als(path: str) -> dict[str, Any]:
        model = ml.ALS(RANK, regularization=ALS_PENALTY, max_iter=ALS_PASSES, random_state=1)
        model.fit(read(path), features=["user", "item", "rating"])
        return {"users": model.user_factors_, "items": model.item_factors_}

    measure({"logistic": logistic, "kmeans": kmeans, "als": als}, algorithms, points, ratings, folder)


if __name__ == "__main__":
    points, ratings, parallelism, folder, *algorithms = sys.argv[1:]
    main(points, ratings, int(parallelism), folder, algorithms)
