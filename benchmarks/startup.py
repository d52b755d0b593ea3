"""How long a program waits for its first record: ``funken run`` to the first line, local, as a batch job and continuously; cold.

usage: startup.py [--rounds N] [--targets local,batch,continuous] [--src DIR ...]

With several ``--src`` (folders that have the package ``funken``) they take turns. Prints, for each target and folder, the medians
of the seconds until the first record and until the program has ended, and the CPU seconds of all it started, Spark's JVM too.
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


def run(source: Path, target: str, script: Path) -> tuple[float, float, float]:
    """Return the seconds until the first record and until the end, and the CPU seconds."""
    environment = dict(os.environ, PYTHONPATH=str(source))
    command = [sys.executable, "-u", "-m", "funken", "run", "--target", target]
    command += ["-D", "execution.warm-session=false", str(script)]
    before, begun = cpu_seconds(), time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as program:
        assert program.stdout is not None
        lines = [(time.perf_counter() - begun, line.split()[-1]) for line in program.stdout]
    ended = time.perf_counter() - begun
    assert sorted(line for _, line in lines) == ["2", "3", "4"], f"wrong result: {lines}"
    reap()
    return lines[0][0], ended, cpu_seconds() - before


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
        script = Path(folder, "first_record.py")
        script.write_text(PROGRAM)
        for target in arguments.targets.split(","):
            found = {source: [] for source in arguments.src}
            for _ in range(arguments.rounds):
                for source in arguments.src:
                    found[source].append(run(source.resolve(), target, script))
            for source, runs in found.items():
                first, end, cpu = (statistics.median(column) for column in zip(*runs, strict=True))
                print(f"{target:10} first record {first:5.2f} s, end {end:5.2f} s, {cpu:5.1f} CPU seconds  {source}")


if __name__ == "__main__":
    main()
