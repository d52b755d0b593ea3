"""PageRank, connected components, shortest paths and triangles: Funken, GraphX, Gelly, DataFrames, igraph and networkx.

usage: benchmarks/graph [--edges 1000000] [--rounds 1] [--parallelism 2] [--systems NAMES] [--algorithms NAMES] [--seconds 600].
The graph is an R-MAT graph (``workload.py``); its seconds are from the file to the value of every vertex in the driver, without
the start of a session. No figure is printed before the answer was compared with that of NumPy and SciPy. Results go to
``benchmarks/results/graph.json``, by size: an algorithm that is measured again replaces its figures.

With ``--folder`` the graph and the right answers stay there for the next call; ``--prepare`` makes them and measures nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import systems
from systems import SYSTEMS
from workload import ALGORITHMS, Oracle, check, read_answer, small, write_graph

sys.path.insert(0, str(Path(__file__).parent.parent / "compare"))

import cases


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--edges", type=int, default=1_000_000)
    cases.add_arguments(parser, 600)
    arguments = parser.parse_args()
    names = systems.sessions.chosen(arguments.systems, SYSTEMS, "system", parser)
    algorithms = systems.sessions.chosen(arguments.algorithms, ALGORITHMS, "algorithm", parser)
    file = Path(arguments.results, "graph.json")
    with tempfile.TemporaryDirectory() as own:
        data = cases.folder_of(arguments, own, arguments.edges)
        path = f"{data}/edges.parquet"
        size = write_graph(arguments.edges, Path(path))
        write_graph(2000, Path(small(path)))
        print(
            f"{size['vertices']:,} vertices, {size['edges']:,} edges, parallelism {arguments.parallelism}", flush=True
        )
        oracle = Oracle(path)
        if arguments.prepare:
            for answer in (*ALGORITHMS, "pagerank-converged"):
                oracle.answer(answer)
            return

        def start(name: str, folder: str, asked: Sequence[str], seconds: float) -> Iterator[dict[str, Any]]:
            return systems.run(name, path, arguments.parallelism, folder, list(asked), seconds)

        def judged(name: str, folder: str, line: dict[str, Any]) -> tuple[str, dict[str, Any]]:
            system, algorithm = SYSTEMS[name], line["algorithm"]
            found = read_answer(folder, algorithm)
            check(found, oracle, system.oracle_of(algorithm), system.tolerance_of(algorithm))
            return "the answer is right", {}

        bench = cases.Bench({name: system.title for name, system in SYSTEMS.items()}, start, judged)
        document = cases.Document(file, arguments.edges, size | cases.conditions(arguments))
        asked_for = arguments.systems.split(",")
        right = [
            bench.measure(name, algorithms, arguments, document)
            for name in names
            if arguments.edges <= SYSTEMS[name].most_edges or name in asked_for
        ]
    cases.draw(file, "edges", arguments.results)
    sys.exit(not all(right))


if __name__ == "__main__":
    main()
