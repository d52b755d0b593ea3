"""The same algorithms as joins of PySpark's DataFrames, with the edges cached and the lineage cut now and then."""

from __future__ import annotations

import sys
from typing import Any

from protocol import measure
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from workload import ITERATIONS

_CUT = 5
"""The lineage is cut every so many rounds; without that, plans grow until the driver does nothing else."""


class OnFrames:
    """The programs."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def _edges(self, path: str) -> DataFrame:
        self._spark.catalog.clearCache()
        return self._spark.read.parquet(path)

    def pagerank(self, path: str) -> Any:
        edges = self._edges(path)
        ends = edges.select(F.col("source").alias("vertex")).union(edges.select("target"))
        vertices = ends.distinct().cache()
        count = vertices.count()
        degrees = edges.groupBy("source").agg(F.count("*").alias("degree"))
        links = edges.join(degrees, "source").select("source", "target", (1 / F.col("degree")).alias("share")).cache()
        ranks = vertices.withColumn("rank", F.lit(1.0 / count))
        for number in range(1, ITERATIONS + 1):
            moved = links.join(ranks, links.source == ranks.vertex).select(
                "target", (F.col("rank") * F.col("share")).alias("part")
            )
            summed = moved.groupBy("target").agg(F.sum("part").alias("moved"))
            joined = vertices.join(summed, vertices.vertex == summed.target, "left")
            ranks = joined.select("vertex", (0.15 / count + 0.85 * F.coalesce("moved", F.lit(0.0))).alias("rank"))
            if number % _CUT == 0:
                ranks = ranks.localCheckpoint()
        return _arrays(ranks)

    def components(self, path: str) -> Any:
        edges = self._edges(path).select("source", "target")
        both = edges.union(edges.select(F.col("target"), F.col("source"))).cache()
        labels = both.select(F.col("source").alias("vertex")).distinct().withColumn("value", F.col("vertex"))
        return self._least(labels.localCheckpoint(), both, F.col("value"))

    def sssp(self, path: str) -> Any:
        edges = self._edges(path).cache()
        ends = edges.select(F.col("source").alias("vertex")).union(edges.select("target")).distinct()
        start = F.when(F.col("vertex") == 0, F.lit(0.0)).otherwise(F.lit(float("inf")))
        return self._least(ends.withColumn("value", start).localCheckpoint(), edges, F.col("value") + F.col("weight"))

    def _least(self, values: DataFrame, edges: DataFrame, offer: Any) -> Any:
        """Let each vertex take the least of its value and the offers of its neighbours, until none changes."""
        while True:
            offers = edges.join(values, edges.source == values.vertex).select(F.col("target"), offer)
            following = values.union(offers).groupBy("vertex").agg(F.min("value").alias("value")).localCheckpoint()
            changed = following.alias("new").join(values.alias("old"), "vertex").filter("new.value <> old.value")
            if changed.limit(1).count() == 0:
                return _arrays(following)
            values = following

    def triangles(self, path: str) -> Any:
        edges = self._edges(path).select("source", "target")
        pairs = edges.select(F.least("source", "target").alias("a"), F.greatest("source", "target").alias("b"))
        pairs = pairs.distinct().cache()
        degrees = pairs.select(F.explode(F.array("a", "b")).alias("v")).groupBy("v").agg(F.count("*").alias("degree"))
        turned = pairs.join(degrees.toDF("a", "da"), "a").join(degrees.toDF("b", "db"), "b")
        away = (F.col("da") < F.col("db")) | ((F.col("da") == F.col("db")) & (F.col("a") < F.col("b")))
        near, far = F.when(away, F.col("a")).otherwise(F.col("b")), F.when(away, F.col("b")).otherwise(F.col("a"))
        turned = turned.select(near.alias("x"), far.alias("y")).cache()
        wedges = turned.toDF("x", "y").join(turned.toDF("y", "z"), "y")
        return [(0, wedges.join(turned.toDF("x", "z"), ["x", "z"]).count())]


def _arrays(frame: DataFrame) -> Any:
    table = frame.toArrow()
    return table.column(0).to_numpy(), table.column(1).to_numpy()


def main(path: str, parallelism: int, folder: str, algorithms: list[str]) -> None:
    """Run the algorithms."""
    builder = SparkSession.builder.master(f"local[{parallelism}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", parallelism).config("spark.driver.memory", "4g")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    programs = OnFrames(spark)
    measure({name: getattr(programs, name) for name in algorithms}, algorithms, path, folder)


if __name__ == "__main__":
    _, path, parallelism, folder, *algorithms = sys.argv[1:]
    main(path, int(parallelism), folder, algorithms)
