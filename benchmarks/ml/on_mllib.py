"""Spark's own library, ``pyspark.ml``: the same objectives, the same numbers of passes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from protocol import measure
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.clustering import KMeans
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.recommendation import ALS
from pyspark.sql import DataFrame, SparkSession
from workload import ALS_PASSES, ALS_PENALTY, CLUSTERS, NAMES, PASSES, RANK, C, dense

from funken.ml.training.neighbors import ROUNDS


def _rows(lists: Any) -> np.ndarray:
    return lists.combine_chunks().flatten().to_numpy().reshape(len(lists), RANK)


def main(points: str, ratings: str, parallelism: int, folder: str, algorithms: list[str]) -> None:
    """Run the algorithms."""
    builder = SparkSession.builder.master(f"local[{parallelism}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", parallelism).config("spark.driver.memory", "6g")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def vectors(path: str, *more: str) -> DataFrame:
        made = VectorAssembler(inputCols=NAMES, outputCol="features").transform(spark.read.parquet(path))
        return made.select("features", *more)

    def logistic(path: str) -> dict[str, Any]:
        data = vectors(path, "label")
        penalty = 1 / (C * data.count())
        found = LogisticRegression(regParam=penalty, standardization=False, maxIter=100, tol=1e-6).fit(data)
        return {"coef": found.coefficients.toArray(), "intercept": [found.intercept]}

    def kmeans(path: str) -> dict[str, Any]:
        found = KMeans(k=CLUSTERS, maxIter=PASSES, tol=0.0, initSteps=ROUNDS, seed=3).fit(vectors(path))
        return {"centers": np.array(found.clusterCenters()), "passes": found.summary.numIter}

    def als(path: str) -> dict[str, Any]:
        model = ALS(rank=RANK, regParam=ALS_PENALTY, maxIter=ALS_PASSES, seed=1)
        found = model.setUserCol("user").setItemCol("item").setRatingCol("rating").fit(spark.read.parquet(path))
        tables = [frame.toArrow() for frame in (found.userFactors, found.itemFactors)]
        users, items = (dense(each.column("id"), _rows(each.column("features"))) for each in tables)
        return {"users": users, "items": items}

    measure({"logistic": logistic, "kmeans": kmeans, "als": als}, algorithms, points, ratings, folder)


if __name__ == "__main__":
    points, ratings, parallelism, folder, *algorithms = sys.argv[1:]
    main(points, ratings, int(parallelism), folder, algorithms)
