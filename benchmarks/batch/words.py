"""WordCount: a DataSet program, and the same with PySpark's RDDs, which combine and shuffle Python objects, too."""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable
from operator import add
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_PER_LINE = 10
_VOCABULARY = 50_000


def write(path: Path, count: int) -> None:
    """Write so many words in lines; few words are frequent, many are rare."""
    chance = random.Random(3)
    with path.open("w") as file:
        for _ in range(count // _PER_LINE):
            file.write(" ".join(f"w{int(chance.paretovariate(0.7)) % _VOCABULARY}" for _ in range(_PER_LINE)) + "\n")


def expected(path: Path) -> list[tuple[str, int]]:
    """Count by a plain loop."""
    with path.open() as file:
        return sorted(Counter(word for line in file for word in line.split()).items())


def run(name: str, arguments: argparse.Namespace, environment: Callable[..., Any], show: Any, folder: str) -> None:
    """Measure one of the two."""
    path = Path(folder, "words.txt")
    if not path.exists():
        write(path, arguments.words)
    began = time.perf_counter()
    if name == "words-rdd":
        context = SparkSession.builder.getOrCreate().sparkContext
        lines = context.textFile(str(path), arguments.parallelism)
        counted = lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(add, arguments.parallelism)
        found = counted.collect()
    else:
        env = environment(arguments)
        pairs = env.read_text_file(path).flat_map(str.split).map(lambda word: (word, 1))
        found = pairs.group_by(0).sum(1).collect()
    seconds = time.perf_counter() - began
    assert sorted(found) == expected(path), f"{name} counted wrongly"
    show(name, words=arguments.words, parallelism=arguments.parallelism, seconds=round(seconds, 2))
