"""Flink 1.20's own DataSet programs (the last version that has them) in a JVM of their own, on the same graph and parallelism.

``seconds`` is ``execute()`` behind a first small job: a local cluster is started in it, and the graph is read from text.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from graphs import Graph

COMPARE = Path(__file__).parent.parent / "compare"
JAVA = Path(__file__).parent / "java"
OPENS = ["java.util", "java.lang", "java.lang.invoke", "java.net", "java.time", "java.nio"]
SECONDS = 900


def run(name: str, graph: Graph, supersteps: int, parallelism: int, folder: str) -> tuple[float, list[Any]]:
    """Return the seconds, and the answer in order."""
    sys.path.insert(0, str(COMPARE))
    import environments  # noqa: PLC0415 - a folder of scripts beside this one

    environments.build("flink-dataset", sys.stderr.write)
    jars = next((environments.ENVS / "flink-dataset").glob("lib/python*/site-packages/pyflink/lib"))
    classes, edges, output = (Path(folder, part) for part in ("classes", "edges.csv", f"{name}-result"))
    if not classes.exists():
        sources = map(str, JAVA.glob("*.java"))
        subprocess.run(
            ["javac", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", *sources], check=True, timeout=SECONDS
        )
    if not edges.exists():
        pairs = zip(graph.source.tolist(), graph.target.tolist(), strict=True)
        edges.write_text("".join(f"{source},{target}\n" for source, target in pairs))
    program = name.removeprefix("flink-")
    opens = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in OPENS]
    given = [program, str(edges), str(graph.vertices), str(supersteps), str(parallelism), str(output)]
    command = ["java", "-Xmx3g", *opens, "-cp", f"{classes}:{jars}/*", "bench.Graphs", *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-3000:]}")
    parts = sorted(output.iterdir()) if output.is_dir() else [output]
    lines = [line for part in parts for line in part.read_text().splitlines()]
    shutil.rmtree(output, ignore_errors=True)
    number = float if "pagerank" in program else int
    found = [(int(vertex), number(value)) for vertex, value in (line.strip("()").split(",") for line in lines)]
    return float(done.stdout.split()[-1]), sorted(found)
