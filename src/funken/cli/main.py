"""``funken``: the command line. Every command is a function of its own module; here they are put together."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import funken
from funken import config
from funken.cli.demo import demo
from funken.cli.doctor import doctor
from funken.cli.jobs import cancel, checkpoints, info, list_jobs, metrics, rescale, savepoint, stop
from funken.cli.lifecycle.warm import down, up
from funken.cli.logs import logs
from funken.cli.run import explain, run
from funken.cli.service.completion import completion
from funken.cli.service.history import history
from funken.cli.service.service import service
from funken.cli.state import state
from funken.cli.top import top
from funken.errors import JavaNotFound
from funken.spark.java import ensure_java

_JAVA_SECONDS = 30.0


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(funken.__version__, "--version", "-V", prog_name="funken")
def main() -> None:
    """Funken: Apache Flink's DataStream model in Python, on Apache Spark.

    Write a program with plain Python functions; run it in this process, as a Spark batch job, or continuously with
    millisecond latency.

    \b
    funken demo                          count words in event-time windows, and watch
    funken demo --input logs/            the same over your own text
    funken run job.py                    run a program
    funken run --target local job.py     the same without Spark, for a debugger
    funken explain job.py                what would run where
    funken run -s SAVEPOINT job.py       resume from a savepoint
    funken up                            keep Spark warm, so that the next runs begin at once; ends with: funken down
    funken state ls SAVEPOINT            what is in a savepoint
    funken list                          jobs that run; then: info, top, logs, metrics, checkpoints
    funken run --detach job.py           run a program in the background
    funken service                       all jobs of this user at one address
    funken history                       jobs that are over
    funken savepoint JOB                 save the state of a job that runs; or: stop, rescale, cancel
    """


main.add_command(demo)
main.add_command(run)
main.add_command(explain)
main.add_command(state)
for _command in (
    list_jobs,
    info,
    top,
    cancel,
    stop,
    savepoint,
    rescale,
    checkpoints,
    metrics,
    logs,
    doctor,
    service,
    history,
    completion,
    up,
    down,
):
    main.add_command(_command)


@main.command()
@click.argument("part", default="")
def options(part: str) -> None:
    """List the options that -D and Configuration take.

    With PART, only those that have it in their name.
    """
    table = Table(box=None, padding=(0, 2, 1, 0), header_style="bold")
    table.add_column("option = default", no_wrap=True)
    table.add_column("meaning")
    for option in config.options():
        if part in option.key:
            default = "" if option.default in ("", {}) else str(option.default)
            table.add_row(Text(f"{option.key}\n  = {default}"), Text(option.doc))
    if not table.rows:
        raise click.ClickException(f"no option has {part!r} in its name.")
    Console(highlight=False).print(table)


@main.command()
def version() -> None:
    """Print the versions of Funken and of what it runs on."""
    click.echo(f"funken   {funken.__version__}")
    for package in ("pyspark", "pyarrow"):
        click.echo(f"{package:8} {importlib.metadata.version(package)}")
    click.echo(f"python   {platform.python_version()} ({platform.system()} {platform.machine()})")
    try:
        home = ensure_java()
    except JavaNotFound as error:
        click.echo(f"java     none: {error}")
        return
    try:
        java = [str(Path(home, "bin", "java")), "-version"]
        said = subprocess.run(java, capture_output=True, text=True, check=False, timeout=_JAVA_SECONDS).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        said = f"unknown: {error}"
    first = next(iter(said.splitlines()), "unknown")
    click.echo(f"java     {first} ({home})")
