"""Where a program runs, for workers that another process has started: its folder, and its environment.

Workers are forked in the JVM's folder, with the JVM's environment. Where the JVM is that of a warm session, both are of whoever
typed ``funken up``: a relative path, or a variable, would mean something else than in the program.
"""

from __future__ import annotations

import os
import time
from dataclasses import field

from funken.dataclass import dataclass

_SPARKS = ("SPARK", "PYSPARK", "PYTHON", "_PYSPARK")
"""How variables begin that Spark has set for its workers, and that Python has read already."""


def _is_sparks(name: str) -> bool:
    return name.startswith(_SPARKS)


@dataclass(frozen=True, slots=True)
class Home:
    """The folder and the environment of a program; the latter may have secrets, and is not shown."""

    directory: str
    environment: dict[str, str] = field(repr=False)

    @staticmethod
    def here() -> Home:
        """Return that of this process."""
        return Home(os.getcwd(), {name: value for name, value in os.environ.items() if not _is_sparks(name)})

    def enter(self) -> None:
        """Make it that of this process, which is a fresh worker; a folder that is not there is left out.

        >>> import os
        >>> home = Home.here()
        >>> os.environ["ELSEWHERE"] = "1"
        >>> home.enter()
        >>> "ELSEWHERE" in os.environ
        False
        """
        if os.path.isdir(self.directory):
            os.chdir(self.directory)
        for name in [name for name in os.environ if not _is_sparks(name) and name not in self.environment]:
            del os.environ[name]
        os.environ.update(self.environment)
        if hasattr(time, "tzset"):
            time.tzset()
