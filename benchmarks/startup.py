"""How long a program waits for its first record: ``funken run`` to the first line, local, as a batch job and continuously; cold.

usage: startup.py [--rounds N] [--targets local,batch,continuous,sql] [--src DIR ...]

``sql`` is ``funken sql`` in this process: a filter and a GROUP BY over a CSV file, cold, then once more in the same session.

With several ``--src`` (folders that have the package ``funken``) they take turns. Prints, for each target and folder, the medians
of the seconds until the first record and until the program has ended, and the CPU seconds of all it started, Spark's JVM too; of
``sql`` also the seconds from the end of the first query to the first row of the second.
"""

from __future__ import annotations

import argparse
import compileall
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = """
from funken import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3]).map(lambda x: x + 1).print()
env.execute("first record")
"""
QUERY = "SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM orders WHERE amount > 10 GROUP BY region;\n"
STATEMENTS = (
    "CREATE TABLE orders (id BIGINT, region STRING, amount DOUBLE) WITH "
    "('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv');\n" + 2 * QUERY
)
_PR_SET_CHILD_SUBREAPER = 36
_BOUND = 120.0


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reap() -> None:
    """Wait for what the program left behind: its JVM ends after it, and is ours then."""
    end = time.monotonic() + _BOUND
    while time.monotonic() < end:
        try:
            process, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not process:
            time.sleep(0.05)
    raise SystemExit("what the program started has not ended")


def lines_of(source: Path, command: list[str]) -> tuple[list[tuple[float, str]], float, float]:
    """Run the command line; return its lines with the seconds until each, the seconds until its end, and the CPU seconds."""
    environment = dict(os.environ, PYTHONPATH=str(source))
    whole = [sys.executable, "-u", "-m", "funken", *command]
    before, begun = cpu_seconds(), time.perf_counter()
    with subprocess.Popen(
        whole, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as program:
        assert program.stdout is not None
        lines = [(time.perf_counter() - begun, line) for line in program.stdout]
    ended = time.perf_counter() - begun
    reap()
    return lines, ended, cpu_seconds() - before


def run(source: Path, target: str, folder: Path) -> tuple[float, ...]:
    """Return the seconds until the first record and until the end, the CPU seconds, and of SQL those of a second query."""
    if target == "sql":
        return run_sql(source, folder)
    script = folder / "first_record.py"
    script.write_text(PROGRAM)
    command = ["run", "--target", target, "-D", "execution.warm-session=false", str(script)]
    lines, ended, cpu = lines_of(source, command)
    assert sorted(line.split()[-1] for _, line in lines) == ["2", "3", "4"], f"wrong result: {lines}"
    return lines[0][0], ended, cpu


def run_sql(source: Path, folder: Path) -> tuple[float, ...]:
    table, script = folder / "orders.csv", folder / "first_row.sql"
    table.write_text("".join(f"{number},region {number % 4},{number}.5\n" for number in range(100)))
    script.write_text(STATEMENTS.replace("{path}", str(table)))
    lines, ended, cpu = lines_of(source, ["sql", "--target", "local", "-f", str(script)])
    rows = [at for at, line in lines if line.startswith("| +I")]
    ends = [at for at, line in lines if line.endswith("rows in set\n")]
    assert len(rows) == 8, f"wrong result: {lines}"
    return rows[0], ended, cpu, rows[4] - ends[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--targets", default="local,batch,continuous")
    parser.add_argument("--src", type=Path, nargs="+", default=[Path(__file__).parents[1] / "src"])
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for source in arguments.src:
        compileall.compile_dir(source / "funken", quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        for target in arguments.targets.split(","):
            found = {source: [] for source in arguments.src}
            for _ in range(arguments.rounds):
                for source in arguments.src:
                    found[source].append(run(source.resolve(), target, Path(folder)))
            for source, runs in found.items():
                first, end, cpu, *second = (statistics.median(column) for column in zip(*runs, strict=True))
                more = "".join(f", second query {each:5.3f} s" for each in second)
                print(
                    f"{target:10} first record {first:5.2f} s, end {end:5.2f} s, {cpu:5.2f} CPU seconds{more}  {source}"
                )


if __name__ == "__main__":
    main()
