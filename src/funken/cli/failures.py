"""What the command line says when a program fails, and how it ends: 128 plus the number of a signal, else 1.

SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal is closed) become an exception in the program, so that its jobs are stopped,
not abandoned. A second signal ends the process at once, unless another job has begun since the first. A signal that the
process was started to ignore, as by ``nohup``, stays ignored.

An error of Funken is shown as its message and the line of the program that led to it; any other error as Python shows
it. Frames of Funken itself are left out of tracebacks: they say nothing about the program.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType

import click

from funken.errors import FunkenError

INTERRUPTED = 128 + signal.SIGINT

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_PACKAGE = Path(__file__).parents[1]
# A frame as Python prints it: the place, then lines that are further indented. Workers may have Funken elsewhere.
_OWN_FRAME = re.compile(
    rf'^  File "(?:{re.escape(str(_PACKAGE))}|[^"\n]*site-packages[\\/]funken)[\\/][^"\n]*", line .*\n(?:    .*\n)*',
    re.MULTILINE,
)


class _Told(KeyboardInterrupt):
    """A signal; not ``SystemExit``, which in a function of the user would be a failure of the function."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


class Signals:
    """What signals do while a program runs."""

    def __init__(self) -> None:
        self._told = False

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: raise an exception, or end the process if that was done already."""
        if self._told:
            with suppress(OSError):
                os.write(2, b"Interrupted again: what still ran is left as it is.\n")
            os._exit(128 + number)
        self._told = True
        raise _Told(number)

    @contextmanager
    def watch(self, client: object) -> Iterator[None]:
        """Take the next signal for the first one: a job begins."""
        self._told = False
        yield

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals while the ``with`` block lasts."""
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
        try:
            for number in taken:
                signal.signal(number, self.take)
            yield
        finally:
            for number in taken:
                signal.signal(number, before[number] or signal.SIG_DFL)


@contextmanager
def ending_well(script: str | None = None) -> Iterator[Signals]:
    """Turn what the block raises into a message and an exit code; ``script`` is the user's program."""
    signals = Signals()
    with signals.handled():
        try:
            yield signals
        except KeyboardInterrupt as interrupt:
            exit_code = interrupt.exit_code if isinstance(interrupt, _Told) else INTERRUPTED
            if exit_code == INTERRUPTED:
                click.echo("Interrupted.", err=True)
            sys.exit(exit_code)
        except FunkenError as error:
            click.echo(f"{click.style('Error:', fg='red')} {explained(error, script)}", err=True)
            sys.exit(1)
        except Exception as error:
            if script is None or isinstance(error, click.ClickException):
                raise
            print_from(script, error)
            sys.exit(1)


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
