"""Functions with many branches, on columns and record by record: end to end on the local target, by turns.

``python benchmarks/branches.py [--records N] [--rounds N] [--only NAME]`` prints the median of each way, and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from funken import (
    Configuration,
    DiscardingSink,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)

Function = Callable[[Any], Any]


def numbers(count: int) -> Function:
    """Return a function of a number that makes a tuple of ints."""
    return eval("lambda i: (" + ", ".join(f"i * {7919 * (place + 1)} % 101 - 50" for place in range(count)) + ",)")


def mixed(i: int) -> tuple[int, int, str]:
    """Make a record of two ints and a text."""
    return (i * 7) % 101, (i * 13) % 29 - 10, f"k{i % 5}"


def statements(lines: list[str]) -> Function:
    """Return a function of a record of ``mixed`` with these statements."""
    space: dict[str, Any] = {}
    exec("def f(x):\n    a, b, c = x\n" + "".join(f"    {line}\n" for line in lines) + "    return (a, b, c)\n", space)
    return space["f"]


def fields(count: int) -> tuple[Function, Function]:
    """``x[i] * 2 if x[i] > 0 else 0`` for each of ``count`` fields."""
    return numbers(count), eval(
        "lambda x: (" + ", ".join(f"x[{place}] * 2 if x[{place}] > 0 else 0" for place in range(count)) + ",)"
    )


def cleaning(count: int) -> tuple[Function, Function]:
    """Statements that change a field where it is out of range."""
    kinds = ("if a > {0}0: a = a - 1", "b = a * 2 if b < -{0} else b + 1", "if c == 'k{0}': c = c.upper()")
    return mixed, statements([kinds[place % 3].format(place) for place in range(count)])


def calling(count: int) -> tuple[Function, Function]:
    """Statements that call functions of Python for some of the records."""
    kinds = (
        "if a > {0}0: a = int(f'{{a}}') - 1",
        "b = round(a / 3) if b < -{0} else b",
        "if c != 'k{0}': c = c.strip().title()",
    )
    return mixed, statements([kinds[place % 3].format(place) for place in range(count)])


def returning(count: int) -> tuple[Function, Function]:
    """Early returns."""
    lines = [f"if a < {place * 8}: return (a // (x[0] + 1), b, c.title())\n    a = a + b" for place in range(count)]
    return mixed, statements(lines)


PROGRAMS = {"fields": fields, "cleaning": cleaning, "calling": calling, "returning": returning}
COUNTS = {
    "fields": (1, 4, 7, 12, 24, 30),
    "cleaning": (1, 3, 6, 12),
    "calling": (1, 3, 6, 12),
    "returning": (1, 3, 6, 12),
}


def seconds(make: Function, function: Function, columns: bool, records: int) -> float:
    """Run a job; return how long it took."""
    configuration = Configuration({"execution.target": "local", "pipeline.vectorized": columns})
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    source = NumberSequenceSource(0, records - 1)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(make).map(function).sink_to(
        DiscardingSink()
    )
    begun = time.perf_counter()
    env.execute()
    return time.perf_counter() - begun


def main() -> None:
    """Print a line for each function."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=300_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--only", choices=PROGRAMS)
    chosen = arguments.parse_args()
    for name, program in PROGRAMS.items():
        for count in COUNTS[name] if chosen.only in (None, name) else ():
            make, function = program(count)
            taken: dict[bool, list[float]] = {True: [], False: []}
            for _ in range(chosen.rounds):
                for columns, found in taken.items():
                    found.append(seconds(make, function, columns, chosen.records))
            one, other = (statistics.median(found) / chosen.records * 1e6 for found in taken.values())
            print(f"{name} {count}: columns {one:.2f} us, records {other:.2f} us, ratio {one / other:.2f}", flush=True)


if __name__ == "__main__":
    main()
