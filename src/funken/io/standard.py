"""Standard output, which a process may be without."""

from __future__ import annotations

import sys


def write_out(text: str) -> None:
    r"""Write to standard output at once; nothing happens in a process without one, as of Python's ``print``.

    Raises ``BrokenPipeError`` if its reader has ended.

    >>> write_out("to be\n")
    to be
    """
    if sys.stdout is not None:
        sys.stdout.write(text)
        sys.stdout.flush()
