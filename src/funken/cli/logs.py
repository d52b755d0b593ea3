"""``funken logs``: what the tasks of a job have logged, once or as it comes."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from funken.cli.jobs import job_command
from funken.cli.remote import OVER, FoundJob
from funken.runtime.log_entries import log_line

_POLL_SECONDS = 0.5
_PAGE = 2_000


@job_command("logs", optional=True)
def logs(
    job: FoundJob, as_json: bool, follow: bool, lines: int, vertex: str | None, subtask: int | None, level: str
) -> None:
    """Print what the tasks of a job have logged, and what became of the job.

    JOB is an id, the beginning of one, or a name; it may be left out if one job runs.
    """
    query = {"level": level.upper()}
    if vertex is not None:
        query["vertex"] = _vertex_of(job, vertex)
    if subtask is not None:
        query["subtask"] = str(subtask)
    found = job.get("logs", limit=str(lines), **query)
    _print(found, as_json)
    while follow:
        # Asked before the log is: what is logged until a job is over is printed.
        over = job.get()["state"] in OVER
        found = job.get("logs", after=str(found["next"]), limit=str(_PAGE), **query)
        _print(found, as_json)
        if over and not found["records"]:
            return
        if not found["records"]:
            time.sleep(_POLL_SECONDS)


click.option("--follow", "-f", is_flag=True, help="Go on until the job is over, or until Ctrl-C.")(logs)
click.option(
    "--lines",
    "-n",
    type=click.IntRange(1, _PAGE),
    default=100,
    show_default=True,
    help="How many of the newest records.",
)(logs)
click.option("--vertex", metavar="TEXT", help="Only the vertex with this in its name, or with this id.")(logs)
click.option("--subtask", "-s", type=click.IntRange(0), help="Only subtasks of this number.")(logs)
click.option(
    "--level",
    type=click.Choice(["debug", "info", "warn", "error"], case_sensitive=False),
    default="debug",
    help="Only records of this level and above.",
)(logs)


def _print(found: dict[str, Any], as_json: bool) -> None:
    if found["lost"]:
        click.echo(f"Warning: {found['lost']} records are not kept any more; the file of the log has them.", err=True)
    for entry in found["records"]:
        click.echo(json.dumps(entry) if as_json else log_line(entry))


def _vertex_of(job: FoundJob, wanted: str) -> str:
    """Return the id of the vertex that is meant; raises ``ClickException`` if there is none, or more than one."""
    vertices = job.get()["vertices"]
    exact = [each for each in vertices if wanted in (each["id"], each["name"])]
    found = exact or [each for each in vertices if wanted.lower() in each["name"].lower()]
    if len(found) == 1:
        return str(found[0]["id"])
    names = ", ".join(repr(each["name"]) for each in (found or vertices))
    raise click.ClickException(
        f"{'more than one' if found else 'no'} vertex has {wanted!r} in its name: there are {names}."
    )
