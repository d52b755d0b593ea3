"""Failures at the command line: messages, and exit codes: 128 plus the number of a signal, else 1.

An error of Funken is shown as its message and the line of the program that led to it; any other error as Python shows
it. Frames of Funken itself are left out of tracebacks: they say nothing about the program.
"""

from __future__ import annotations

import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import click

from funken import config
from funken.api.jobs.client import JobClient
from funken.api.jobs.results import NotToRun
from funken.cli.script import execute
from funken.cli.signals import Signals, Told
from funken.config import Configuration
from funken.errors import FunkenError, InvalidConfiguration, without_own_frames
from funken.plan.advice import advise
from funken.rest.jobs import public_id
from funken.rest.serving import available

INTERRUPTED = 128 + signal.SIGINT


@contextmanager
def ending_well(script: str | None = None) -> Iterator[Signals]:
    """Turn an exception of the block into a message and an exit code; ``script`` is the user's program."""
    signals = Signals()
    with signals.handled():
        try:
            yield signals
        except KeyboardInterrupt as interrupt:
            signals.end()
            exit_code = interrupt.exit_code if isinstance(interrupt, Told) else INTERRUPTED
            if exit_code == INTERRUPTED:
                click.echo("Interrupted.", err=True)
            sys.exit(exit_code)
        except FunkenError as error:
            if script is not None and sys.excepthook is not sys.__excepthook__:
                _print_as_python(error)  # the program has a hook of its own
            else:
                file = getattr(sys.modules["__main__"], "__file__", None) if script is not None else None
                click.echo(f"{click.style('Error:', fg='red')} {explained(error, file)}", err=True)
            sys.exit(1)
        except (SystemExit, NotToRun):
            raise
        except BaseException as error:
            if script is None or (isinstance(error, click.ClickException) and not _of_program(error)):
                raise
            _print_as_python(error)
            sys.exit(1)


def explained(error: FunkenError, file: str | None = None) -> str:
    """Return an error's message without Funken's own frames, and where in a file of the program it was raised."""
    text = without_own_frames(str(error))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if not frames:
        return text
    return f"{text}\n\nin {file}, line {frames[-1].lineno}: {frames[-1].line}"


def _of_program(error: BaseException) -> TracebackType | None:
    """Return the traceback from the program on; ``None`` if the program was not at work."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not execute.__code__:
        trace = trace.tb_next
    return trace and trace.tb_next


def _print_as_python(error: BaseException) -> None:
    """Print a traceback that begins in the program, by ``sys.excepthook``, as Python does it."""
    trace = _of_program(error)
    if trace is not None or isinstance(error, SyntaxError):
        error.__traceback__ = trace
    advise(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    sys.stdout.flush()
    sys.excepthook(type(error), error, error.__traceback__)


# ---- Options that several commands share. Commands that run no script import this module instead of
# ``funken.cli.run``.


def _configure(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> Configuration:
    configuration = Configuration()
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not of the form KEY=VALUE.")
        try:
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                configuration.set(key.strip(), value.strip())
        except InvalidConfiguration as error:
            raise click.BadParameter(f"{error} 'funken options' lists all.") from None
        for warning in given:
            click.echo(f"Warning: {warning.message}", err=True)
    return configuration


conf_option = click.option(
    "--conf",
    "-D",
    "configuration",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_configure,
    help="Set an option; 'funken options' lists them. May be repeated.",
)


class _Parallelism(click.IntRange):
    """A number of subtasks; Flink's ``-py job.py`` in its place is answered."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; fail for anything else."""
        if value == "y":
            self.fail("it is read as -p y. Flink's -py is not needed: funken run job.py", param, ctx)
        return super().convert(value, param, ctx)


def job_options(default_target: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of every job to a command: ``--target``, ``--parallelism``, ``--conf``."""
    options = (
        click.option(
            "--target",
            type=click.Choice(["auto", "local", "batch", "continuous"]),
            default=default_target,
            show_default=True,
            help="Where to run: in this process, as a Spark batch job, or in Spark's real-time mode.",
        ),
        click.option("--parallelism", "-p", type=_Parallelism(min=1), help="Subtasks per operator."),
        conf_option,
    )

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def with_options(configuration: Configuration, target: str, parallelism: int | None) -> Configuration:
    """Set options of a configuration that have a flag of their own; ``auto`` leaves the target as it is."""
    if target != "auto":
        configuration.set(config.TARGET, target)
    if parallelism is not None:
        configuration.set(config.PARALLELISM, parallelism)
    return configuration


# ---- What the command line does about the REST server of a job: print its address, and open the dashboard.


def with_dashboard(configuration: Configuration, wanted: bool) -> Configuration:
    """Switch the server on for a job of this process too, if the dashboard is wanted and can be had."""
    if wanted and not configuration.contains_key(config.REST_ENABLED.key) and available():
        configuration.set(config.REST_ENABLED, "true")
    return configuration


class Announcer:
    """Prints the address of each job that begins, once; ``open_browser`` opens the first one."""

    def __init__(self, open_browser: bool = False, browse: Callable[[str], object] | None = None) -> None:
        self._open = open_browser
        self._browse = browse

    @contextmanager
    def watch(self, client: JobClient) -> Iterator[None]:
        """Print the address of a job that begins."""
        url = client.get_web_interface_url()
        if url is not None:
            address = f"{url}/#/jobs/{public_id(str(client.get_job_id()))}"
            click.echo(f"Dashboard of {client.plan.name!r}: {address}", err=True)
            if self._open:
                self._open = False
                if self._browse is None:
                    import webbrowser  # noqa: PLC0415 - few runs open one

                    self._browse = webbrowser.open
                self._browse(address)
        elif self._open:
            click.echo("There is no dashboard to open: pip install 'funken[rest]'.", err=True)
        yield
