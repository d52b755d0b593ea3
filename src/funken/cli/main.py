"""``funken``: the command line. Every command is a function of its own module, which is imported when the command runs.

A job's first record waits for every import: all commands together take some 15 ms more than ``funken run`` alone.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class
from rich.console import Console
from rich.table import Table
from rich.text import Text

import funken
from funken import __version__, config, starting
from funken.errors import JavaNotFound
from funken.spark.java import ensure_java

INTERRUPTED = 130

_COMMANDS = {
    "cancel": "funken.cli.jobs:cancel",
    "checkpoint": "funken.cli.jobs:checkpoint",
    "checkpoints": "funken.cli.jobs:checkpoints",
    "completion": "funken.cli.main:completion",
    "demo": "funken.demo.command:demo",
    "doctor": "funken.cli.doctor:doctor",
    "down": "funken.cli.warm:down",
    "explain": "funken.cli.run:explain",
    "history": "funken.cli.service:history",
    "info": "funken.cli.jobs:info",
    "list": "funken.cli.jobs:list_jobs",
    "logs": "funken.cli.jobs:logs",
    "metrics": "funken.cli.jobs:metrics",
    "options": "funken.cli.main:options",
    "rescale": "funken.cli.jobs:rescale",
    "run": "funken.cli.run:run",
    "savepoint": "funken.cli.jobs:savepoint",
    "service": "funken.cli.service:service",
    "sql": "funken.cli.sql:sql",
    "state": "funken.cli.state:state",
    "stop": "funken.cli.jobs:stop",
    "top": "funken.cli.top:top",
    "up": "funken.cli.warm:up",
    "version": "funken.cli.main:version",
}


class CommandGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in order."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None if there is none of this name."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends each with 130."""
        try:
            starting.hand_over()
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "--version", "-V", prog_name="funken")
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
    funken sql script.sql                run statements of SQL; without a script: typed in
    funken run -s SAVEPOINT job.py       resume from a savepoint
    funken up                            keep Spark warm, so that the next runs begin at once; ends with: funken down
    funken state ls SAVEPOINT            what is in a savepoint
    funken list                          jobs that run; then: info, top, logs, metrics, checkpoints
    funken run --detach job.py           run a program in the background
    funken service                       all jobs of this user at one address
    funken history                       jobs that are over
    funken savepoint JOB                 save the state of a job that runs; or: stop, checkpoint, rescale, cancel
    """


# ---- ``funken options`` and ``funken version``: what can be set, and what Funken runs on.


_JAVA_SECONDS = 30.0


@click.command()
@click.argument("words", metavar="[WORD]...", nargs=-1)
def options(words: tuple[str, ...]) -> None:
    """List the options that -D and Configuration take.

    With words, only those that have all of them in their name or meaning, in any case; those with the words in their name come
    first. Without a terminal, each is one line: option, default, a tab, meaning.
    """
    wanted = [word.lower() for word in words]
    named = [option for option in config.options() if all(word in option.key.lower() for word in wanted)]
    others = [option for option in config.options() if option not in named]
    found = named + [one for one in others if all(word in f"{one.key} {one.doc}".lower() for word in wanted)]
    if not found:
        raise click.ClickException(
            f"no option has {' '.join(words)!r} in its name or meaning. 'funken options' without a word lists all."
        )
    defaults = ["" if option.default in ("", {}) else str(option.default) for option in found]
    console = Console(highlight=False)
    if not console.is_terminal:  # one option, one line, for grep and the like
        for option, default in zip(found, defaults, strict=True):
            click.echo(f"{option.key} = {default}\t{' '.join(option.doc.split())}")
        return
    table = Table(box=None, padding=(0, 2, 1, 0), header_style="bold")
    table.add_column("option = default", no_wrap=True)
    table.add_column("meaning")
    for option, default in zip(found, defaults, strict=True):
        table.add_row(Text(f"{option.key}\n  = {default}"), Text(option.doc))
    console.print(table)


@click.command()
def version() -> None:
    """Print the versions of Funken and of its platform."""
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


# ---- ``funken completion``: the script with which a shell completes commands and options; click makes it.


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    eval "$(funken completion bash)"     in ~/.bashrc
    eval "$(funken completion zsh)"      in ~/.zshrc
    funken completion fish > ~/.config/fish/completions/funken.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    # Not kind(...).source(): that looks for the bash of this machine, which need not be the one that reads the script.
    script = kind(context.find_root().command, {}, "funken", "_FUNKEN_COMPLETE")
    click.echo(script.source_template % script.source_vars())
