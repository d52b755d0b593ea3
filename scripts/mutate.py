"""Plant faults in Funken, one at a time, and see whether the tests or the simulation notice.

``make mutate``. The table of faults is ``tests/mutants``. Each is planted in a copy of ``src``; first the fast tests that
the entry names run, then the simulation, and the first that fails has caught it. A fault that makes one of them hang is
caught too. Fails if fewer than 95 % are caught, of those that are not argued to be equivalent.

``make mutate ONLY=gate`` plants those whose id contains the text.
"""

from __future__ import annotations

import argparse
import itertools
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.mutants import Mutant, all_mutants

_REQUIRED = 0.95
_NO_TESTS = 5
"""The exit code of pytest where none of the named tests is fast."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_SEED = re.compile(r"^seed (\d+) \((\w+)\): (.*)", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """What became of one fault; ``by`` is empty if nothing noticed it."""

    mutant: Mutant
    by: str
    seconds: float


class Workspace:
    """A copy of ``src`` in which one fault at a time is planted."""

    _stamps = itertools.count(int(time.time()))

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "src", folder / "src")

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """Plant a fault for a while."""
        if not mutant.file:
            yield
            return
        path = self.folder / mutant.file
        source = path.read_text(encoding="utf-8")
        try:
            self._write(path, mutant.applied(source))
            yield
        finally:
            self._write(path, source)

    def _write(self, path: Path, source: str) -> None:
        path.write_text(source, encoding="utf-8")
        stamp = next(self._stamps)  # compiled modules are told apart by size and whole seconds
        os.utime(path, (stamp, stamp))

    def run(self, command: list[str], timeout: float) -> tuple[int, str]:
        """Run a command against the copy; return its exit code and output. One that hangs is ended: code -1."""
        environment = os.environ | {"PYTHONPATH": str(self.folder / "src"), "HYPOTHESIS_PROFILE": "first"}
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                code = -1
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(0)
            return code, output.read()


def judged(mutant: Mutant, workspace: Workspace, options: argparse.Namespace) -> Verdict:
    """Plant a fault and return who noticed it."""
    begin = time.monotonic()
    with workspace.planted(mutant):
        by = "" if options.only_simulation else by_tests(mutant.tests, workspace, options.timeout)
        by = by or by_simulation(workspace, options)
    return Verdict(mutant, by, time.monotonic() - begin)


def by_tests(tests: tuple[str, ...], workspace: Workspace, timeout: float) -> str:
    """Return which of the fast tests fails, if one does."""
    if not tests:
        return ""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    code, output = workspace.run([*command, "-m", "not spark and not simulation and not services", *tests], timeout)
    if code in (0, _NO_TESTS):
        return ""
    found = _FAILED.search(output)
    if code == -1:
        return "tests, which hang"
    return found[1] if found else f"pytest, exit code {code}: {output[-300:]}"


def by_simulation(workspace: Workspace, options: argparse.Namespace) -> str:
    """Return which seed fails, if one does."""
    command = [sys.executable, str(ROOT / "scripts" / "simulate.py"), "--workers", "1", "--stop"]
    command += ["--seeds", str(options.seeds), "--first-seed", str(options.first_seed)]
    code, output = workspace.run(command, options.timeout)
    if code == 0:
        return ""
    if code == -1:
        return "the simulation, which hangs"
    found = _SEED.search(output)
    return f"seed {found[1]} ({found[2]}: {found[3][:90]})" if found else f"the simulation: {output[-300:]}"


def results(mutants: list[Mutant], options: argparse.Namespace) -> Iterator[Verdict]:
    """Judge each mutant, several at a time."""
    free: queue.Queue[Workspace] = queue.Queue()
    with tempfile.TemporaryDirectory(prefix="funken-mutants-") as folder:
        for number in range(options.workers):
            free.put(Workspace(Path(folder) / str(number)))

        def judge(mutant: Mutant, options: argparse.Namespace = options) -> Verdict:
            workspace = free.get()
            try:
                return judged(mutant, workspace, options)
            finally:
                free.put(workspace)

        if not options.no_baseline:
            every = tuple(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
            patient = argparse.Namespace(**vars(options) | {"timeout": 10 * options.timeout})  # all tests of the table
            sound = judge(Mutant("nothing", "", "", "", "nothing", every), patient)
            if sound.by:
                sys.exit(f"nothing was planted, and yet this fails: {sound.by}")
        with ThreadPoolExecutor(options.workers) as pool:
            yield from pool.map(judge, mutants)


def main() -> int:
    """Plant what is asked for; return how the shell is to see it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help="texts; plant the faults whose id contains one of them")
    parser.add_argument("--only-simulation", action="store_true", help="leave the fast tests out")
    parser.add_argument("--seeds", type=int, default=500, help="how many simulated jobs")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="how many at a time")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for the tests, and for the simulation")
    parser.add_argument(
        "--no-baseline", action="store_true", help="do not look first whether all is well without a fault"
    )
    parser.add_argument("--list", action="store_true", help="print the table, and run nothing")
    options = parser.parse_args()
    chosen = [m for m in all_mutants() if not options.only or any(text in m.id for text in options.only)]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.id:45} {'(equivalent) ' if mutant.equivalent else ''}{mutant.breaks}")
        return 0
    mutants = [mutant for mutant in chosen if not mutant.equivalent]
    survivors: list[Mutant] = []
    for verdict in results(mutants, options):
        if not verdict.by:
            survivors.append(verdict.mutant)
        told = verdict.by or f"NOT CAUGHT: {verdict.mutant.breaks}"
        print(f"{verdict.mutant.id:45} {verdict.seconds:6.1f} s  {told}", flush=True)
    caught = len(mutants) - len(survivors)
    share = caught / max(1, len(mutants))
    print(f"{caught} of {len(mutants)} caught ({share:.1%}); {len(chosen) - len(mutants)} equivalent, not counted")
    if survivors:
        print("not caught:", *(mutant.id for mutant in survivors))
    return 0 if share >= _REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
