"""``funken``: the command line. Every command is a function of its own module, which is imported when the command runs.

A job's first record waits for every import: all commands together take some 15 ms more than ``funken run`` alone.
"""

from __future__ import annotations

import importlib
from difflib import get_close_matches
from typing import Any

import click

from funken import __version__, starting
from funken.lazy import importing

INTERRUPTED = 130

_COMMANDS = {
    "cancel": ("funken.cli.jobs:cancel", "Cancel a job; its state is not saved."),
    "checkpoint": (
        "funken.cli.jobs:checkpoint",
        "Make a checkpoint of a job now, as an interval would; print its path.",
    ),
    "checkpoints": (
        "funken.cli.jobs:checkpoints",
        "List the newest checkpoints of a job, newest first; the driver knows up to 50.",
    ),
    "completion": ("funken.cli.about:completion", "Print the completion script for a shell."),
    "demo": ("funken.demo.command:demo", "Count words in sliding event-time windows: 5 s long, every 1 s."),
    "doctor": (
        "funken.cli.doctor:doctor",
        "Check this machine: Python, packages, extras, Java, disk, ports, a small run, and a cluster's parts.",
    ),
    "down": ("funken.cli.warm:down", "End the warm sessions of this user; a program that uses one fails."),
    "explain": ("funken.cli.run:explain", "Print the plan of a job without running it."),
    "history": (
        "funken.cli.service:history",
        "List the jobs that are over, newest first; with JOB, show how it ended.",
    ),
    "info": ("funken.cli.jobs:info", "Show a job: its vertices, how busy they are, and its newest failure."),
    "list": ("funken.cli.jobs:list_jobs", "List the jobs of this user's processes, or of a driver."),
    "logs": ("funken.cli.jobs:logs", "Print the logs of a job's tasks, and the fate of the job."),
    "metrics": ("funken.cli.jobs:metrics", "Print the metrics of a job, one per line: name and value."),
    "options": ("funken.cli.about:options", "List the options that -D and Configuration take."),
    "rescale": (
        "funken.cli.jobs:rescale",
        "Resume a job with another parallelism, from a checkpoint that is taken now.",
    ),
    "run": ("funken.cli.run:run", "Run a job: a Python script that ends in execute()."),
    "savepoint": (
        "funken.cli.jobs:savepoint",
        "Save the state of a job, which keeps running; print the savepoint's path.",
    ),
    "service": (
        "funken.cli.service:service",
        "Show all jobs of this user at one address: those that run in any process, and those that are over.",
    ),
    "sql": ("funken.cli.sql:sql", "Run statements of Flink's SQL: of a SCRIPT, of an option, or typed in."),
    "state": ("funken.cli.state:state", "Look into a savepoint or checkpoint."),
    "stop": ("funken.cli.jobs:stop", "Save the state of a job and end it; print the savepoint's path."),
    "stubs": ("funken.cli.about:stubs", "Write stubs of pyflink, with Funken's types, for mypy, pyright and editors."),
    "top": (
        "funken.cli.top:top",
        "Follow a job until it ends, or until Ctrl-C: rates, load, watermark and latency of each vertex.",
    ),
    "up": ("funken.cli.warm:up", "Start a Spark session that stays: later runs begin in it, and need not start Spark."),
    "version": ("funken.cli.about:version", "Print the versions of Funken and of what it runs on."),
}
"""The function of each command, and its line in the help: to read it from the function takes half a second of imports."""


_ELSEWHERE = {
    "help": "The options of a command: funken COMMAND --help",
    **dict.fromkeys(("run-application", "submit"), "A script runs with: funken run job.py"),
    **dict.fromkeys(
        ("start-cluster", "stop-cluster"),
        "There is no cluster to start: funken run starts what a job needs, or joins a Spark.",
    ),
}
"""Commands of other systems, with the remedy."""
_OPTIONS = {
    **dict.fromkeys(("-c", "--config", "--set"), "-D KEY=VALUE sets an option."),
    **dict.fromkeys(("-m", "--jobmanager", "--host", "--port"), "--url http://HOST:PORT names a driver."),
    **dict.fromkeys(("-s", "--fromSavepoint"), "--from-savepoint PATH begins with a savepoint."),
}
"""Options of other systems, with the remedy."""


class CommandGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in order."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None if there is none of this name."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        with importing():
            command: click.Command = getattr(importlib.import_module(module), name)
        starting.hand_over()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; the error for another word guesses its name, or that of the command that runs a script."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], _COMMANDS, 1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            if args[0].endswith(".py"):
                guess = f" A script runs with: funken run {args[0]}"
            elif args[0] in _ELSEWHERE:
                guess = f" {_ELSEWHERE[args[0]]}"
            raise click.UsageError(f"{error.message}{guess}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each with its line, and import none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in sorted(_COMMANDS.items())])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends each with 130."""
        try:
            starting.open_streams()
            with starting.raised_again(KeyboardInterrupt, starting.interrupt):
                return super().invoke(ctx)
        except click.NoSuchOption as error:
            if error.option_name not in _OPTIONS:
                raise
            raise click.UsageError(f"{error.format_message()} {_OPTIONS[error.option_name]}", error.ctx) from None
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
