"""The same algorithms as joins of PySpark's DataFrames, with the edges cached and the lineage cut now and then."""

from __future__ import annotations

import time
from typing import Any

from graphs import Graph
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_CUT = 5
"""The lineage is cut every so many rounds; without that, plans grow until the driver does nothing else."""


def page_rank(spark: SparkSession, graph: Graph, supersteps: int) -> list[tuple[int, float]]:
    """Return (vertex, rank)."""
    count = graph.vertices
    edges = spark.read.parquet(graph.path)
    degrees = edges.groupBy("source").agg(F.count("*").alias("degree"))
    links = edges.join(degrees, "source").select("source", "target", (1 / F.col("degree")).alias("share")).cache()
    vertices = spark.range(count).withColumnRenamed("id", "vertex").cache()
    ranks: DataFrame = vertices.withColumn("rank", F.lit(1.0 / count))
    for number in range(1, supersteps + 1):
        moved = links.join(ranks, links.source == ranks.vertex).select(
            "target", (F.col("rank") * F.col("share")).alias("part")
        )
        summed = moved.groupBy("target").agg(F.sum("part").alias("moved"))
        joined = vertices.join(summed, vertices.vertex == summed.target, "left")
        ranks = joined.select("vertex", (0.15 / count + 0.85 * F.coalesce("moved", F.lit(0.0))).alias("rank"))
        if number % _CUT == 0:
            ranks = ranks.localCheckpoint()
    return [(row[0], row[1]) for row in ranks.collect()]


def components(spark: SparkSession, graph: Graph) -> list[tuple[int, int]]:
    """Return (vertex, component): the least label of a vertex and its neighbours, until none changes."""
    edges = spark.read.parquet(graph.path)
    both = edges.union(edges.select(F.col("target"), F.col("source"))).toDF("source", "target").cache()
    labels: DataFrame = spark.range(graph.vertices).select(F.col("id").alias("vertex"), F.col("id").alias("label"))
    labels = labels.localCheckpoint()
    while True:
        offers = both.join(labels, both.source == labels.vertex).select(F.col("target").alias("vertex"), "label")
        following = labels.union(offers).groupBy("vertex").agg(F.min("label").alias("label")).localCheckpoint()
        changed = following.alias("new").join(labels.alias("old"), "vertex").filter("new.label <> old.label").limit(1)
        done = changed.count() == 0
        labels = following
        if done:
            return [(row[0], row[1]) for row in labels.collect()]


def run_graph(name: str, graph: Graph, supersteps: int, parallelism: int, folder: str) -> tuple[float, list[Any]]:
    """Return the seconds, and the answer in order."""
    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", parallelism)
    began = time.perf_counter()
    found = page_rank(spark, graph, supersteps) if name == "pagerank-frame" else components(spark, graph)
    seconds = time.perf_counter() - began
    spark.catalog.clearCache()
    return seconds, sorted(found)
