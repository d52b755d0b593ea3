"""``funken``: the command line. Every command is a function of its own module, which is imported when the command runs.

A job's first record waits for every import: all commands together take some 15 ms more than ``funken run`` alone.
"""

from __future__ import annotations

import gc
import importlib
from typing import Any

import click

from funken import __version__, starting

INTERRUPTED = 130

_COMMANDS = {
    "cancel": "funken.cli.jobs:cancel",
    "checkpoint": "funken.cli.jobs:checkpoint",
    "checkpoints": "funken.cli.jobs:checkpoints",
    "completion": "funken.cli.about:completion",
    "demo": "funken.demo.command:demo",
    "doctor": "funken.cli.doctor:doctor",
    "down": "funken.cli.warm:down",
    "explain": "funken.cli.run:explain",
    "history": "funken.cli.service:history",
    "info": "funken.cli.jobs:info",
    "list": "funken.cli.jobs:list_jobs",
    "logs": "funken.cli.jobs:logs",
    "metrics": "funken.cli.jobs:metrics",
    "options": "funken.cli.about:options",
    "rescale": "funken.cli.jobs:rescale",
    "run": "funken.cli.run:run",
    "savepoint": "funken.cli.jobs:savepoint",
    "service": "funken.cli.service:service",
    "sql": "funken.cli.sql:sql",
    "state": "funken.cli.state:state",
    "stop": "funken.cli.jobs:stop",
    "stubs": "funken.cli.about:stubs",
    "top": "funken.cli.top:top",
    "up": "funken.cli.warm:up",
    "version": "funken.cli.about:version",
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
        collects = gc.isenabled()
        gc.disable()  # modules make no garbage: looking for it takes a tenth of their time
        try:
            command: click.Command = getattr(importlib.import_module(module), name)
        finally:
            if collects:
                gc.enable()
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
