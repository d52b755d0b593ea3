"""Standard output and standard error, which a process may be without."""

from __future__ import annotations

import sys


def write_out(text: str, *, error: bool = False) -> None:
    r"""Write to standard output, or to ``error``, at once; nothing happens in a process without one, as of Python's ``print``.

    Raises ``BrokenPipeError`` if its reader has ended.

    >>> write_out("to be\n")
    to be
    """
    file = sys.stderr if error else sys.stdout
    if file is not None:
        file.write(text)
        file.flush()
