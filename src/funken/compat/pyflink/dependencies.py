"""Files that a job's functions need: modules, packages and archives, carried to every worker inside the plan.

They are put into a folder of their own, before anything of the plan is unpickled, so that functions find them however
they are imported. A worker changes into that folder only if there are archives, which are found by relative paths.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import importlib
import io
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from funken.config import Configuration
from funken.errors import InvalidProgram
from funken.plan.physical import PhysicalPlan
from funken.runtime.driver.job import Job, Runner

# ---- Archives unpacked into a folder, and nowhere else: zip files, and tar files in any compression that Python
# knows.
#
# Refused is what would put something outside of the folder, or point there: absolute names, ``..``, links that lead
# out, devices, pipes. Nothing here needs the ``filter`` of ``tarfile``, which Python 3.11 has from 3.11.4 on only.


_EXECUTABLE = 0o111
_INSTALL_SECONDS = 600


def checked_target(target: str) -> str:
    """Return the folder of an archive, relative to the working folder; raises ``InvalidProgram`` if it is not within that.

    >>> checked_target("data/words")
    'data/words'
    >>> checked_target("../words")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: add_python_archive(): the target '../words' is not within the working folder of the functions.
    Give a relative path without '..', 'data' for example.
    """
    if not _is_within(target) or PurePosixPath(target) == PurePosixPath():
        raise InvalidProgram(
            f"add_python_archive(): the target {target!r} is not within the working folder of the functions. Give a relative "
            "path without '..', 'data' for example."
        )
    return target


def unpack(content: bytes, folder: Path, name: str) -> None:
    """Unpack an archive into a folder, which is made; raises ``InvalidProgram`` if it is none, or not to be trusted."""
    folder.mkdir(parents=True, exist_ok=True)
    stream = io.BytesIO(content)
    if zipfile.is_zipfile(stream):
        _unpack_zip(stream, folder, name)
        return
    stream.seek(0)
    try:
        with tarfile.open(fileobj=stream) as archive:
            for member in archive:
                _unpack_member(archive, member, folder, name)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InvalidProgram(f"add_python_archive(): {name!r} is neither a zip nor a tar archive: {error}.") from error
    root = folder.resolve()
    for path in folder.rglob("*"):  # a later member may have changed where an earlier link leads
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise _refused(name, str(path.relative_to(folder)), "is a link that leads out of the archive")


def _unpack_zip(stream: io.BytesIO, folder: Path, name: str) -> None:
    try:
        with zipfile.ZipFile(stream) as archive:
            for member in archive.namelist():
                if not _is_within(member):
                    raise _refused(name, member, "leads out of the archive")
            archive.extractall(folder)  # makes no links
    except (zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InvalidProgram(f"add_python_archive(): {name!r} is a damaged zip archive: {error}.") from error


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, name: str) -> None:
    if not _is_within(member.name):
        raise _refused(name, member.name, "leads out of the archive")
    if member.isdir() and PurePosixPath(member.name) == PurePosixPath():
        return
    target = folder / member.name
    root, above = folder.resolve(), target.parent.resolve()
    if not above.is_relative_to(root):
        raise _refused(name, member.name, "lies behind a link that leads out of the archive")
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.isdir():
        target.mkdir(exist_ok=True)
    elif member.issym():
        if os.path.isabs(member.linkname) or not (above / member.linkname).resolve().is_relative_to(root):
            raise _refused(name, member.name, "is a link that leads out of the archive")
        target.symlink_to(member.linkname)
    elif member.isfile() or member.islnk():
        if member.islnk() and not _is_within(member.linkname):
            raise _refused(name, member.name, "is a link that leads out of the archive")
        if target.is_symlink():  # to be replaced, not to be followed
            target.unlink()
        data = archive.extractfile(member)
        assert data is not None
        with data, open(target, "wb") as file:
            shutil.copyfileobj(data, file)
        os.utime(target, (member.mtime, member.mtime))
        if member.mode & _EXECUTABLE:
            target.chmod(0o755)
    else:
        raise _refused(name, member.name, "is neither a file, a folder nor a link")


def _is_within(name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    return not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _refused(archive: str, member: str, fact: str) -> InvalidProgram:
    return InvalidProgram(
        f"add_python_archive(): {archive!r} is refused: {member!r} {fact}. Pack it anew with files of its own only."
    )


@dataclass
class Dependencies:
    """Dependencies added so far: file contents by name, archives by folder, environment variables."""

    files: dict[str, bytes] = field(default_factory=dict)
    archives: dict[str, bytes] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def add_file(self, path: str) -> None:
        """Add a module, a package folder, or a zip, egg or wheel."""
        found = Path(path)
        if found.is_dir():
            for below in sorted(found.rglob("*")):
                if below.is_file() and "__pycache__" not in below.parts:
                    self.files[f"{found.name}/{below.relative_to(found).as_posix()}"] = below.read_bytes()
        elif found.is_file():
            self.files[found.name] = found.read_bytes()
        else:
            raise InvalidProgram(f"add_python_file(): there is no file or folder {path!r}.")

    def add_archive(self, path: str, target: str | None) -> None:
        """Add an archive; functions find its content in the folder ``target``, relative to their working folder."""
        if not Path(path).is_file():
            raise InvalidProgram(f"add_python_archive(): there is no archive {path!r}.")
        self.archives[checked_target(target or Path(path).name)] = Path(path).read_bytes()

    def add_requirements(self, requirements: str, cache: str | None) -> None:
        """Install the packages of a requirements file into a folder that travels."""
        with tempfile.TemporaryDirectory() as folder:
            offline = ["--no-index", "--find-links", cache] if cache else []
            command = [sys.executable, "-m", "pip", "install", "-q", "-r", requirements, "-t", folder, *offline]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_INSTALL_SECONDS)
            except subprocess.TimeoutExpired:
                raise InvalidProgram(
                    f"the requirements of {requirements!r} were not installed within {_INSTALL_SECONDS} s. Can the package index "
                    "be reached? set_python_requirements() also takes a folder of downloaded packages."
                ) from None
            if done.returncode:
                raise InvalidProgram(f"the requirements of {requirements!r} cannot be installed: {done.stderr.strip()}")
            for below in sorted(Path(folder).rglob("*")):
                if below.is_file() and "__pycache__" not in below.parts:
                    self.files[f"site/{below.relative_to(folder).as_posix()}"] = below.read_bytes()

    def shipment(self) -> Shipment:
        """Return the dependencies that travel."""
        return Shipment(dict(self.files), dict(self.archives), dict(self.variables))


@dataclass(frozen=True)
class Shipment:
    """Dependencies on their way; unpickling it installs them."""

    files: dict[str, bytes]
    archives: dict[str, bytes]
    variables: dict[str, str]

    def __reduce__(self) -> tuple[Any, ...]:
        return install, (self.files, self.archives, self.variables)


def install(files: dict[str, bytes], archives: dict[str, bytes], variables: dict[str, str]) -> Shipment:
    """Put files where imports find them; a second time, the same content costs nothing."""
    os.environ.update(variables)
    if files or archives:
        digest = hashlib.sha256()
        for name, content in sorted({**files, **archives}.items()):
            digest.update(name.encode() + b"\0" + content)
        folder = _shelf() / digest.hexdigest()[:32]
        if not folder.exists():
            _unpack(files, archives, folder)
        # After the interpreter's own places: what Funken and Spark import must stay what it is.
        tops = {
            name.partition("/")[0] for name in files if "/" in name
        }  # a folder's modules, as in PyFlink, or a package
        places = [folder, *(folder / name for name in [*sorted(tops), *filter(_importable, files)])]
        sys.path += [str(place) for place in places if place.exists() and str(place) not in sys.path]
        importlib.invalidate_caches()
        if archives:
            os.chdir(folder)
    return Shipment(files, archives, variables)


def _shelf() -> Path:
    """Return the folder of this user for such files; nobody else may have put anything there."""
    user = os.getuid()
    shelf = Path(tempfile.gettempdir(), f"funken-files-{user}")
    shelf.mkdir(mode=0o700, parents=True, exist_ok=True)
    if shelf.stat().st_uid != user or shelf.is_symlink():
        raise PermissionError(f"{shelf} belongs to somebody else; remove it, or set TMPDIR to another folder.")
    return shelf


def _importable(name: str) -> bool:
    return name.endswith((".zip", ".egg", ".whl"))


def _unpack(files: dict[str, bytes], archives: dict[str, bytes], folder: Path) -> None:
    draft = Path(tempfile.mkdtemp(dir=folder.parent))
    for name, content in files.items():
        place = draft / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    for target, content in archives.items():
        unpack(content, draft / checked_target(target), target)
    try:
        draft.rename(folder)
    except OSError:
        if not folder.exists():  # else another worker was faster, with the same content
            raise


@dataclass(frozen=True)
class ComesBack:
    """A runner that leaves the working folder as it was; a job in this process works in that of its archives."""

    runner: Runner

    def default_parallelism(self, configuration: Configuration, session: Any) -> int:
        """Ask the runner."""
        return self.runner.default_parallelism(configuration, session)

    def prepare(self, job: Job) -> None:
        """Let the runner do it."""
        self.runner.prepare(job)

    def run(self, job: Job) -> None:
        """Run the job and come back."""
        here = Path.cwd()
        try:
            self.runner.run(job)
        finally:
            os.chdir(here)


@dataclass(frozen=True)
class ShippedPlan(PhysicalPlan):
    """A plan that brings its dependencies, and PyFlink's names, to the process that unpickles it."""

    shipment: Shipment = field(default_factory=lambda: Shipment({}, {}, {}))

    def __reduce__(self) -> tuple[Any, ...]:
        # The shipment comes first: it is unpickled, and so installed, before what may need it.
        names = [each.name for each in dataclasses.fields(PhysicalPlan)]
        return _rebuild, (self.shipment, *(getattr(self, name) for name in names))


def _rebuild(shipment: Shipment, *fields: Any) -> ShippedPlan:
    return dataclasses.replace(ShippedPlan(*fields), shipment=shipment)


def shipped(plan: PhysicalPlan, dependencies: Dependencies) -> ShippedPlan:
    """Return the plan with its dependencies."""
    fields = {each.name: getattr(plan, each.name) for each in dataclasses.fields(PhysicalPlan)}
    return ShippedPlan(**fields, shipment=dependencies.shipment())
