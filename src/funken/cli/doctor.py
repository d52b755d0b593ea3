"""``funken doctor``: the requirements of jobs on this machine, with a remedy for each missing one.

A check returns findings; it changes nothing but a temporary file where it tries to write. Exit code 1 if something is missing
that jobs need; what only an extra or some jobs need is a remark. Without PySpark jobs run in the process of the program, so a
light installation needs neither Java nor a host name.
"""

from __future__ import annotations

import enum
import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from urllib.parse import urlsplit
from uuid import uuid4

import click

from funken import config, extras
from funken.cli.failures import job_options
from funken.cli.jobs import as_json_option, print_json
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import FunkenError
from funken.io.storage import open_storage
from funken.rest.settings import registry_folder
from funken.spark.java import ensure_java, home_of
from funken.timing.clock import SystemClock

_FREE_BYTES = 2**30
_CONNECT_SECONDS = 5.0
_PYTHON = ((3, 11), (3, 13))
_FOR_DEVELOPERS = ("dev", "docs")
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[\w.,-]+\])?(?P<versions>[<>=~!\d.,]*)"
    r"(?:\s*;\s*extra == ['\"](?P<extra>[\w-]+)['\"])?$"
)
_TRIAL = "import funken; print(funken.StreamExecutionEnvironment.create_local_environment(1).from_collection([20, 22])"
_TRIAL += ".map(lambda n: n + 1).key_by(lambda n: 0).sum().execute_and_collect(limit=2))"
_TRIAL_SECONDS = 60.0
_PORTS = {"REST and dashboard": config.REST_PORT}


class Grade(enum.Enum):
    """The gravity of a finding."""

    OK = "ok"
    REMARK = "remark"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check: its subject, the finding, and the remedy."""

    what: str
    grade: Grade
    found: str
    remedy: str = ""


def check_python() -> Iterator[CheckResult]:
    """Check the version of this Python, and the Python of the workers."""
    fits = _PYTHON[0] <= sys.version_info[:2] <= _PYTHON[1]
    text = f"{platform.python_version()} ({sys.executable})"
    yield CheckResult(
        "Python", Grade.OK if fits else Grade.MISSING, text, "" if fits else "Use Python 3.11, 3.12 or 3.13."
    )
    worker = os.environ.get("PYSPARK_PYTHON")
    if worker and shutil.which(worker) is None:
        remedy = "Set PYSPARK_PYTHON to an interpreter that every worker has at this path, or unset it."
        yield CheckResult(
            "Python of workers", Grade.MISSING, f"PYSPARK_PYTHON is {worker!r}, which is not there", remedy
        )


def check_packages() -> Iterator[CheckResult]:
    """Check Funken's requirements, package by package, and its extras: one line for each."""
    required, extras_ = _requirements()
    for name, versions in required:
        state = _state_of(name, versions)
        remedy = "" if state.fits else "Run: pip install funken"
        yield CheckResult(name, Grade.OK if state.fits else Grade.MISSING, state.text, remedy)
    absent = []
    for extra, packages in extras_.items():
        states = [(name, _state_of(name, versions)) for name, versions in packages]
        found = ", ".join(f"{name} {state.text}" for name, state in states)
        if all(state.fits for _, state in states):
            yield CheckResult(f"Extra {extra}", Grade.OK, found)
        elif extra == "spark" or any(state.version for _, state in states):
            yield CheckResult(f"Extra {extra}", Grade.REMARK, found, _remedy_of(extra, dict(states)))
        else:
            absent.append(extra)
    if absent:
        remedy = f"Install one if a program needs it: pip install 'funken[{absent[0]}]'"
        yield CheckResult("Other extras", Grade.OK, f"{', '.join(absent)} are not installed", remedy)


def _remedy_of(extra: str, states: dict[str, _State]) -> str:
    pyspark = states.get("pyspark")
    if pyspark is None or pyspark.fits:
        return f"Run: pip install 'funken[{extra}]'"
    if pyspark.version:
        return "Use the PySpark of this range: pip install 'funken[spark]', or a cluster with that version."
    return "Programs run in their own process (target 'local'). For Spark run: pip install 'funken[spark]'"


def _requirements() -> tuple[list[tuple[str, str]], dict[str, list[tuple[str, str]]]]:
    """Return the requirements of Funken, and the additions of each extra for users, with the versions."""
    required: list[tuple[str, str]] = []
    by_extra: dict[str, list[tuple[str, str]]] = {}
    for text in importlib.metadata.requires("funken") or []:
        found = _REQUIREMENT.match(text)
        if found is None or found["name"] == "funken" or found["extra"] in _FOR_DEVELOPERS:
            continue
        into = required if found["extra"] is None else by_extra.setdefault(found["extra"], [])
        into.append((found["name"], found["versions"] or ""))
    return required, dict(sorted(by_extra.items()))


@dataclass(frozen=True, slots=True)
class _State:
    """The version of a package, if there is one, and whether it is in the range."""

    version: str
    fits: bool
    text: str


def _state_of(name: str, versions: str) -> _State:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = _version_of_module(name)
    if not version:
        return _State("", False, "not installed")
    if satisfies(version, versions):
        return _State(version, True, version)
    return _State(version, False, f"{version}, but {versions} is needed")


def _version_of_module(name: str) -> str:
    """Return the version of a PySpark that comes with a Spark (SPARK_HOME), and so is no distribution."""
    if name != "pyspark" or not extras.has_spark():
        return ""
    return str(getattr(importlib.import_module("pyspark.version"), "__version__", ""))


def satisfies(version: str, versions: str) -> bool:
    """Return True if a version is within bounds, by its numbers alone.

    >>> satisfies("4.3.0", "<4.4,>=4.3"), satisfies("4.4.0rc1", "<4.4,>=4.3"), satisfies("2", ">=2.2")
    (True, False, False)
    """
    mine = _numbers(version)
    for bound in filter(None, versions.split(",")):
        sign, limit = bound.rstrip("0123456789."), _numbers(bound.lstrip("<>=~!"))
        if (sign == ">=" and mine < limit) or (sign == "<" and mine >= limit) or (sign == "<=" and mine > limit):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    found = [int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3]]
    return tuple(found + [0] * (3 - len(found)))


def check_java() -> Iterator[CheckResult]:
    """Check for a Java that Spark starts on."""
    try:
        yield CheckResult("Java", Grade.OK, f"{home_of(ensure_java())}")
    except FunkenError as error:
        if not extras.has_spark():
            yield CheckResult("Java", Grade.OK, "none, and none is needed without PySpark")
            return
        yield CheckResult("Java", Grade.MISSING, str(error).partition(". ")[0], str(error).partition(". ")[2])


def check_machine() -> Iterator[CheckResult]:
    """Check the host name, temporary folder and cores of this machine."""
    yield CheckResult(
        "Cores", Grade.OK, f"{os.cpu_count()}: a continuous job needs a slot for every task of every stage"
    )
    try:
        name = socket.gethostname()
        yield CheckResult("Host name", Grade.OK, f"{name} is {socket.gethostbyname(name)}")
    except OSError as error:
        remedy = "Add the name to /etc/hosts, or set SPARK_LOCAL_IP=127.0.0.1 for jobs on this machine alone."
        yield CheckResult("Host name", Grade.REMARK, f"{socket.gethostname()} has no address: {error}", remedy)
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    enough = free >= _FREE_BYTES
    remedy = "" if enough else "Free some space, or set TMPDIR and spark.local.dir to another disk."
    yield CheckResult(
        "Temporary folder", Grade.OK if enough else Grade.REMARK, f"{folder}, {free / 2**30:.1f} GB free", remedy
    )
    registry = registry_folder()
    if registry is None:
        remedy = "Set HOME or XDG_RUNTIME_DIR, so that 'funken list' finds jobs; --url works without."
        yield CheckResult("Folder of jobs", Grade.REMARK, "the user has no home", remedy)


def check_ports(configuration: Configuration) -> Iterator[CheckResult]:
    """Check that the ports which options name are free; a range or 0 lets the driver look for one."""
    for what, option in _PORTS.items():
        port = str(configuration.get(option))
        if not port.isdigit() or port == "0":
            continue
        try:
            socket.create_server(("127.0.0.1", int(port))).close()
        except OSError as error:
            remedy = f"Set {option.key} to another port, or to 0 for any; if a job has it, that is as it should be."
            yield CheckResult(f"Port of {what}", Grade.REMARK, f"{port} is taken: {error.strerror}", remedy)
        else:
            yield CheckResult(f"Port of {what}", Grade.OK, f"{port} is free")


def check_trial() -> Iterator[CheckResult]:
    """Run a small program on the local target, in a process of its own."""
    begin = SystemClock().monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _TRIAL],
            capture_output=True,
            text=True,
            timeout=_TRIAL_SECONDS,
            check=False,
        )
        last = (done.stderr.strip().splitlines() or ["no output"])[-1] if done.returncode else done.stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        last = str(error)
    seconds = SystemClock().monotonic() - begin
    if last == "[21, 44]":
        yield CheckResult("Local run", Grade.OK, f"a program of three operators ran in {seconds:.1f} s")
    else:
        remedy = "Run the program of the README; its traceback says more."
        yield CheckResult("Local run", Grade.MISSING, f"a program of three operators failed: {last}", remedy)


def check_master(master: str) -> Iterator[CheckResult]:
    """Check that a Spark master answers; one of this machine needs no check."""
    if not master.startswith("spark://"):
        return
    for each in master.removeprefix("spark://").split(","):
        try:
            url = urlsplit(f"//{each}")
            with socket.create_connection((url.hostname or "", url.port or 7077), _CONNECT_SECONDS):
                yield CheckResult("Spark master", Grade.OK, f"{each} answers")
        except (OSError, ValueError) as error:
            remedy = f"Start it, or set {config.MASTER.key} to the address that its log names."
            yield CheckResult("Spark master", Grade.MISSING, f"{each} cannot be reached: {error}", remedy)


def check_storage(folder: str) -> Iterator[CheckResult]:
    """Check that checkpoints can be written, read and deleted; from this machine, workers need the same."""
    if not folder:
        return
    name = f".funken-doctor-{uuid4().hex}"
    try:
        storage = open_storage(folder)
        storage.write(name, b"written by funken doctor")
        try:
            storage.read(name)
        finally:
            storage.delete(name)
    except FunkenError as error:
        yield CheckResult("Checkpoint storage", Grade.MISSING, str(error), "")
    else:
        yield CheckResult("Checkpoint storage", Grade.OK, f"{folder} can be written and read from here")


def findings(configuration: Configuration) -> Iterator[CheckResult]:
    """Run all checks."""
    checks: tuple[Callable[[], Iterator[CheckResult]], ...] = (check_python, check_packages, check_java, check_machine)
    for check in checks:
        yield from check()
    yield from check_ports(configuration)
    yield from check_trial()
    yield from check_master(configuration.get(config.MASTER))
    yield from check_storage(configuration.get(config.CHECKPOINT_DIR))


_COLOURS = {Grade.OK: "green", Grade.REMARK: "yellow", Grade.MISSING: "red"}


@click.command()
@job_options(default_target="auto")
@as_json_option
def doctor(target: str, parallelism: int | None, configuration: Configuration, as_json: bool) -> None:
    """Check this machine: Python, packages, extras, Java, disk, ports, a small run, and a cluster's parts.

    \b
    funken doctor
    funken doctor -D spark.master=spark://host:7077 -D execution.checkpointing.dir=s3://bucket/checkpoints
    """
    found = list(findings(configuration))
    if as_json:
        print_json([asdict(each) | {"grade": each.grade.value} for each in found])
    else:
        for each in found:
            grade = click.style(f"{each.grade.value:8}", fg=_COLOURS[each.grade])
            click.echo(f"{grade} {each.what}: {each.found}")
            if each.remedy:
                click.echo(f"{'':9}{each.remedy}")
    if any(each.grade is Grade.MISSING for each in found):
        sys.exit(1)
