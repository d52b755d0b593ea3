"""What the command line says when a program fails, and how it ends: 130 after Ctrl-C, 143 after SIGTERM, else 1.

An error of Funken is shown as its message and the line of the program that led to it; any other error as Python shows
it. Frames of Funken itself are left out of tracebacks: they say nothing about the program.
"""

from __future__ import annotations

import re
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType

import click

from funken.errors import FunkenError

INTERRUPTED = 130
TERMINATED = 143

_PACKAGE = Path(__file__).parents[1]
# A frame as Python prints it: the place, then lines that are further indented. Workers may have Funken elsewhere.
_OWN_FRAME = re.compile(
    rf'^  File "(?:{re.escape(str(_PACKAGE))}|[^"\n]*site-packages[\\/]funken)[\\/][^"\n]*", line .*\n(?:    .*\n)*',
    re.MULTILINE,
)


@contextmanager
def ending_well(script: str | None = None) -> Iterator[None]:
    """Turn what the block raises into a message and an exit code; ``script`` is the user's program.

    SIGTERM becomes an exception too, so that a job that runs is stopped, not abandoned: the same as Ctrl-C to all that run it.
    """
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except _Terminated:
        sys.exit(TERMINATED)
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        sys.exit(INTERRUPTED)
    except FunkenError as error:
        click.echo(f"{click.style('Error:', fg='red')} {explained(error, script)}", err=True)
        sys.exit(1)
    except Exception as error:
        if script is None or isinstance(error, click.ClickException):
            raise
        print_from(script, error)
        sys.exit(1)
    finally:
        signal.signal(signal.SIGTERM, before)


class _Terminated(KeyboardInterrupt):
    """Not ``SystemExit``: raised in a function of the user, that would be a failure of the function."""


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _Terminated


def explained(error: FunkenError, script: str | None = None) -> str:
    """Return an error's message without Funken's own frames, and where in the program it was raised."""
    text = _OWN_FRAME.sub("", str(error) + "\n").rstrip()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == script]
    if not frames:
        return text
    return f"{text}\n\nin {script}, line {frames[-1].lineno}: {frames[-1].line}"


def print_from(script: str, error: BaseException) -> None:
    """Print a traceback that begins in the program, as Python would have printed it."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
