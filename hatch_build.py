"""Compiles the C helpers below ``src`` when the package is built or installed for development; each has a fallback in Python.

Without a C compiler, or with ``FUNKEN_NATIVE=0``, the package is made without them. They are linked to nothing but C's
library and know nothing of Python, so a wheel is for a platform, and for all versions of Python. ``python hatch_build.py``
compiles in place.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a script
    BuildHookInterface = object

ROOT = Path(__file__).parent
SECONDS = 120


def compiled() -> list[Path]:
    """Compile each helper beside its source; return those that were made."""
    if os.environ.get("FUNKEN_NATIVE") == "0" or not sys.platform.startswith("linux"):
        return []
    made = []
    for source in sorted((ROOT / "src").rglob("*.c")):
        target, partial = source.with_suffix(".clib"), source.with_suffix(".partial")
        command = [*shlex.split(os.environ.get("CC", "cc")), "-O2", "-shared", "-fPIC", "-o", str(partial), str(source)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            reason = getattr(error, "stderr", "") or error
            print(f"{source.name} is not compiled, and Python does its work: {reason}", file=sys.stderr)
            continue
        partial.replace(target)
        made.append(target)
    return made


class CompiledHelpers(BuildHookInterface):
    """Adds the helpers to a wheel, which is then one of this platform."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict) -> None:
        """Compile, before the files of the wheel are gathered."""
        helpers = compiled()
        if helpers:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            build_data["artifacts"] += [str(helper.relative_to(ROOT)) for helper in helpers]


if __name__ == "__main__":
    for each in compiled():
        print(each.relative_to(ROOT))
