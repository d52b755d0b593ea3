"""Streams of edges for tests."""

import random

from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.graph import EdgeStream

BY_PLACE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda numbered, _: numbered[1])


def drawn(count, vertices, seed, name=lambda vertex: vertex):
    """Return edges between few vertices: loops and repetitions among them."""
    chance = random.Random(seed)
    return [
        (name(chance.randrange(vertices)), name(chance.randrange(vertices)), chance.randrange(9)) for _ in range(count)
    ]


def stream(edges, parallelism=1, times=None, slack=0):
    """Return a stream of edges from a source of that parallelism; without ``times``, one edge per ms.

    Watermarks are ``slack`` ms behind the greatest timestamp.
    """
    env = StreamExecutionEnvironment.create_local_environment(parallelism=parallelism)
    times = list(range(len(edges))) if times is None else times
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(slack).with_timestamp_assigner(lambda each, _: each[1])
    numbered = list(zip(edges, times, strict=True))
    source = env.from_source(DataGeneratorSource(lambda n: numbered[n], len(numbered)), strategy, "edges")
    return EdgeStream.from_stream(source, lambda each: each[0])
