"""Runs the cases of an experiment in turn and keeps what they measured; what is there already is not run again.

A run is known by its case, round, parameters and the commit. A case that fails, gives a wrong result or takes too long is
recorded as that, without a figure, and is tried again the next time. Whatever a run started ends with it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import environments
from experiments import Case, Experiment
from processes import Others, end_session
from protocol import Spec
from systems import SYSTEMS

LIMIT = 300
"""How long a run may take beyond a multiple of the seconds it measures."""

Run = dict[str, Any]


def commit() -> str:
    """Return the newest commit of what is measured, with a ``+`` if the working tree differs from it."""
    paths = ["src", "benchmarks/compare", "benchmarks/chaos", "benchmarks/async_enrichment.py"]

    def git(*command: str) -> str:
        done = subprocess.run(
            ["git", *command, "--", *paths],
            cwd=environments.ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout.strip()

    return (git("log", "-1", "--format=%h") or "unknown") + ("+" if git("status", "--porcelain") else "")


def machine() -> str:
    """Say where this is."""
    model = ""
    if Path("/proc/cpuinfo").exists():
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        model = f", {names[0].split(':')[1].strip()}" if names else ""
    return (
        f"{platform.system()} {platform.machine()}{model}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )


def load(path: Path) -> dict[str, Any]:
    """Return an experiment's document; an empty one if there is none."""
    document: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"runs": []}
    return document


class Rounds:
    """One experiment's runs."""

    def __init__(self, experiment: Experiment, path: Path, base: Spec, fresh: bool, say: Callable[[str], None]) -> None:
        self.experiment, self.path, self.base, self.say = experiment, path, base, say
        self.commit = commit()
        self.fresh = fresh
        self.document = load(path)

    def plan(self, rounds: int, wanted: Callable[[Case], bool] = lambda case: True) -> list[tuple[int, Case]]:
        """Return what is still to be run; every other round backwards, so that nobody always comes first."""
        cases = [case for case in self.experiment.cases if wanted(case)]
        turns = [(number, case) for number in range(rounds) for case in (cases[::-1] if number % 2 else cases)]
        return [(number, case) for number, case in turns if self.fresh or not self._known(number, case)]

    def _spec(self, case: Case) -> Spec:
        return replace(self.base, variant=SYSTEMS[case.system].variant, **case.spec)

    def _known(self, number: int, case: Case) -> bool:
        spec = json.loads(self._spec(case).dump())
        return any(
            (run["case"], run["round"], run["commit"]) == (case.label, number, self.commit)
            and run["spec"] == spec
            and ("records_per_s" in run["figures"] or "unsupported" in run["figures"] or "details" in run["figures"])
            for run in self.document["runs"]
        )

    def run(self, number: int, case: Case) -> Run:
        """Run a case, keep and return what came of it."""
        spec = self._spec(case)
        begin = time.monotonic()
        figures = measure(case.system, spec)
        run = {
            "case": case.label,
            "system": case.system,
            "round": number,
            "commit": self.commit,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "took": round(time.monotonic() - begin, 1),
            "spec": json.loads(spec.dump()),
            "figures": figures,
        }
        others = [old for old in self.document["runs"] if (old["case"], old["round"]) != (case.label, number)]
        self.document |= {
            "experiment": self.experiment.name,
            "title": self.experiment.title,
            "machine": machine(),
            "versions": environments.versions(),
            "runs": [*others, run],
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.document) + "\n")
        partial.replace(self.path)
        return run


def measure(system_name: str, spec: Spec) -> dict[str, Any]:
    """Run a runner in a session of its own and return its figures, or ``{"failure_event": why}``."""
    system = SYSTEMS[system_name]
    folder = tempfile.mkdtemp(prefix="funken-bench-")
    command = [str(environments.python(system.environment)), "-W", "ignore", str(environments.HERE / system.script)]
    command.append(replace(spec, folder=folder).dump())
    out, err = Path(folder, "stdout"), Path(folder, "stderr")
    try:
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                command,
                stdout=stdout,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
                cwd=folder,
                env={**environments.variables(system.environment), "TMPDIR": folder},
                start_new_session=True,
            )
            others = Others(process.pid)
            try:
                code = _wait(process, LIMIT + 5 * (spec.warmup + spec.seconds), others)
            except subprocess.TimeoutExpired:
                return {"failed": "took too long", "log": _tail(err)}
            finally:
                end_session(process.pid)
                process.wait(30)
        lines = [line for line in out.read_text(errors="replace").splitlines() if line.startswith("{")]
        try:
            figures: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        except ValueError:  # it was killed while it said so
            figures = {}
        if code or not figures:
            return {"failed": _reason(err, code), "log": _tail(err)}
        return {**figures, "others": round(others.share(), 3), "memory": others.memory}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], seconds: float, others: Others) -> int:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return process.wait(1)
        except subprocess.TimeoutExpired:
            others.sample()
            if time.monotonic() > deadline:
                raise


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-6000:]


def _reason(path: Path, code: int) -> str:
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
    for word in ("WrongResult", "Caused by", "Stalled", "Error", "Exception"):
        found = [line for line in lines if word in line]
        if found:
            return found[-1][:300]
    return f"exit code {code}: {lines[-1][:300] if lines else 'no output'}"
