"""Archives unpacked into a folder, and nowhere else: zip files, and tar files in any compression that Python knows.

Refused is what would put something outside of the folder, or point there: absolute names, ``..``, links that lead out, devices,
pipes. Nothing here needs the ``filter`` of ``tarfile``, which Python 3.11 has from 3.11.4 on only.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from funken.errors import InvalidProgram

_EXECUTABLE = 0o111


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
