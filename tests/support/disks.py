"""Small disks: real ones where this user may mount them, else the test is skipped."""

from __future__ import annotations

import contextlib
import subprocess

import pytest


@contextlib.contextmanager
def small_disk(folder, size):
    """Mount an empty file system of so many bytes at a new folder."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    except OSError as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def fill(folder):
    """Write until nothing more fits; return the file that takes all the space."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(2**16))
    with contextlib.suppress(OSError), open(filler, "ab", buffering=0) as file:
        while True:
            file.write(b"0")
    return filler


def remount(folder, how):
    """Make a small disk read-only (``ro``) or writable (``rw``)."""
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)
