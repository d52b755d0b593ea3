"""``funken doctor``: what this machine lacks for jobs on Spark, and what to do about it.

A check returns findings; it changes nothing but a temporary file where it tries to write. Exit code 1 if something is missing
that jobs need; what only an extra or some jobs need is a remark.
"""

from __future__ import annotations

import enum
import importlib.metadata
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from urllib.parse import urlsplit
from uuid import uuid4

import click

from funken import config
from funken.cli.jobs import as_json_option, print_json
from funken.cli.options import job_options
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import FunkenError
from funken.io.storage import open_storage
from funken.rest.addresses import registry_folder
from funken.spark.java import ensure_java, home_of

_FREE_BYTES = 2**30
_CONNECT_SECONDS = 5.0
_PYTHON = ((3, 11), (3, 13))
_EXTRAS = (None, "rest", "prometheus", "rocksdb", "cep")
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?P<versions>[<>=~!\d.,]*)(?:\s*;\s*extra == ['\"](?P<extra>[\w-]+)['\"])?$"
)


class Grade(enum.Enum):
    """How bad a finding is."""

    OK = "ok"
    REMARK = "remark"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What was checked, what was found, and what to do about it."""

    what: str
    grade: Grade
    found: str
    remedy: str = ""


def check_python() -> Iterator[CheckResult]:
    """Check the version of this Python, and what the workers will run."""
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
    """Check every package that Funken and its extras require, in the version that they require."""
    for text in importlib.metadata.requires("funken") or []:
        found = _REQUIREMENT.match(text)
        extra = found["extra"] if found is not None else None
        if found is not None and extra in _EXTRAS:
            grade = Grade.MISSING if extra is None else Grade.REMARK
            install = "pip install funken" if extra is None else f"pip install 'funken[{extra}]'"
            yield _package(found["name"], found["versions"] or "", grade, install)


def _package(name: str, versions: str, grade: Grade, install: str) -> CheckResult:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return CheckResult(name, grade, "not installed", f"Run: {install}")
    if satisfies(version, versions):
        return CheckResult(name, Grade.OK, version)
    return CheckResult(name, grade, f"{version}, but {versions} is needed", f"Run: {install}")


def satisfies(version: str, versions: str) -> bool:
    """Whether a version is within bounds, by its numbers alone.

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
    yield from check_master(configuration.get(config.MASTER))
    yield from check_storage(configuration.get(config.CHECKPOINT_DIR))


_COLOURS = {Grade.OK: "green", Grade.REMARK: "yellow", Grade.MISSING: "red"}


@click.command()
@job_options(default_target="auto")
@as_json_option
def doctor(target: str, parallelism: int | None, configuration: Configuration, as_json: bool) -> None:
    """Check what this machine lacks: Python, packages, Java, disk, and what -D names of a cluster.

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
