"""Class data sharing: Spark's JVM maps classes that an earlier one has parsed and verified (AppCDS, JEP 310 and 350).

Of the CPU time until a job's first record, half is the JVM's loading of 16,000 classes: 9.5 s, and 4.5 s with an archive
of them. The first JVM that Funken starts writes the archive when it ends, after the program (some seconds, 170 MB); those
that start later map it.

An archive fits one Java and one set of jars, which its name has a hash of; the JVM checks that once more, and ignores an
archive that does not fit or is damaged. A JVM trusts what is in an archive, so archives are in a folder that belongs to
this user and that nobody else can write; where there is no such folder, there is no archive.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path
from uuid import uuid4

from funken.io.cache import cache_folder
from funken.timing.clock import SystemClock

_KEPT = 2
"""How many archives stay: those used last."""
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
    """Hash what an archive depends on."""
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


__all__ = ["options"]
