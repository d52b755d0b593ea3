"""Graphs for tests: the two of Gelly's tests, generated ones, and odd ones."""

import random

import numpy as np

from funken.graph import Graph
from funken.graph.columns.parts import rmat_chunk, uniform_chunk
from tests.dataset.programs import environment

DEFAULT = [(1, 2, 12), (1, 3, 13), (2, 3, 23), (3, 4, 34), (3, 5, 35), (4, 5, 45), (5, 1, 51)]
ASM = [(0, 1), (0, 2), (2, 1), (2, 3), (3, 1), (3, 4), (5, 3)]


def default(parallelism=2):
    """Return Gelly's default test graph."""
    env = environment(parallelism)
    return Graph.from_collection(env, DEFAULT, [(n, n) for n in range(1, 6)])


def asm(parallelism=2, undirected=False, values=None):
    """Return the small graph of Gelly's library tests."""
    pairs = ASM + [(target, source) for source, target in ASM] if undirected else ASM
    edges = [(source, target, None if values is None else values(source, target)) for source, target in pairs]
    return Graph.from_collection(environment(parallelism), edges, lambda vertex: vertex)


def mix(x):
    """Return splitmix64 of an array."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def rmat(scale=6, count=320):
    """Return vertices and edges of an R-MAT graph, with what it has: loops, repeated edges, vertices without any, and hubs."""
    source, target, _ = rmat_chunk(count, scale, 42, (0.57, 0.19, 0.19), 0)
    return list(range(1 << scale)), list(zip(source.tolist(), target.tolist(), strict=True))


def spread(vertices=40, count=90):
    """Return vertices and edges of a graph whose edges are drawn evenly."""
    source, target, _ = uniform_chunk(count, vertices, 7, 0)
    return list(range(vertices)), list(zip(source.tolist(), target.tolist(), strict=True))


def odd(seed):
    """Return vertices and edges with isolated vertices, self-loops, duplicates and several components."""
    chance = random.Random(seed)
    vertices = list(range(24))
    edges = [(chance.randrange(20), chance.randrange(20)) for _ in range(26)]
    edges += [*edges[:4], (3, 3), (7, 7), (7, 7), (0, 5), (5, 9), (0, 11)]
    return vertices, edges
