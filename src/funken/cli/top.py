"""``funken top``: a job that runs, as a table that follows it."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from funken.cli.jobs import OVER, FoundJob, duration, job_command, new_table, print_json, wide_console
from funken.runtime.job.states import Bottleneck
from funken.timing.instants import moment

_WHOLE = 1000.0


@job_command("top", optional=True)
def top(job: FoundJob, as_json: bool, interval: float, once: bool) -> None:
    """Follow a job until it ends, or until Ctrl-C: rates, load, watermark and latency of each vertex.

    JOB is an id, the beginning of one, or a name; it may be left out if one job runs.
    """
    found = job.get("snapshot")
    if as_json:
        print_json(
            [row(info, vertex) for info, vertex in zip(found["graph"]["vertices"], found["vertices"], strict=True)]
        )
        return
    console = wide_console()
    if once or not console.is_terminal:
        console.print(picture(found))
        return
    with Live(picture(found), console=console, auto_refresh=False) as live:
        while found["state"] not in OVER:
            time.sleep(interval)
            found = job.get("snapshot")
            live.update(picture(found), refresh=True)


click.option(
    "--interval", type=click.FloatRange(min=0.1), default=1.0, show_default=True, metavar="SECONDS", help="How often."
)(top)
click.option("--once", is_flag=True, help="Print the table once.")(top)


def row(info: dict[str, Any], vertex: dict[str, Any]) -> dict[str, Any]:
    """Return the displayed row of a vertex: rates are sums, load and latency those of the worst subtask."""
    metrics = [subtask["metrics"] for subtask in vertex["subtasks"]]

    def of(name: str) -> list[Any]:
        return [each[name] for each in metrics if each[name] is not None]

    marks = [
        each["output_watermark"] if each["input_watermark"] is None else each["input_watermark"] for each in metrics
    ]
    return {
        "vertex": info["name"],
        "state": vertex["state"],
        "subtasks": info["parallelism"],
        "records_in_per_second": sum(of("records_in_per_second")),
        "records_out_per_second": sum(of("records_out_per_second")),
        "busy": max(of("busy_ms_per_second"), default=0.0) / _WHOLE,
        "back_pressured": max(of("back_pressured_ms_per_second"), default=0.0) / _WHOLE,
        "watermark": None if None in marks else min(marks, default=None),
        "latency_p99": max(of("latency_p99"), default=None),
        "marker_p99": max((ages["p99"] for each in metrics for ages in each["markers"].values()), default=None),
    }


def picture(found: dict[str, Any]) -> Group:
    """Return the table of a snapshot, and a line about the job."""
    marked = any(each["metrics"]["markers"] for vertex in found["vertices"] for each in vertex["subtasks"])
    columns = ["vertex", "state", "subtasks", "in/s", "out/s", "busy", "back-pressured", "watermark", "p99"]
    table: Table = new_table(*columns, *(["marker p99"] if marked else []))
    for info, vertex in zip(found["graph"]["vertices"], found["vertices"], strict=True):
        each = row(info, vertex)
        p99, marker = each["latency_p99"], each["marker_p99"]
        pressed = Text(f"{each['back_pressured']:.0%}", "bold red" if each["back_pressured"] > 0.5 else "")
        table.add_row(
            Text(each["vertex"]),
            Text(each["state"]),
            str(each["subtasks"]),
            f"{each['records_in_per_second']:,.0f}",
            f"{each['records_out_per_second']:,.0f}",
            f"{each['busy']:.0%}",
            pressed,
            "-" if each["watermark"] is None else moment(each["watermark"]),
            "-" if p99 is None else f"{p99:,.1f} ms",
            *([] if not marked else ["-" if marker is None else f"{marker:,.1f} ms"]),
        )
    checkpoints = found["checkpoints"]
    head = (
        f"{found['name']}  {found['state']} for {duration(found['duration'])}, {found['restarts']} restarts, "
        f"{checkpoints['completed']} checkpoints, {checkpoints['failed']} failed"
    )
    slow = [Text(bottleneck_text(each), "bold red") for each in found.get("bottlenecks", ())]
    slow += [Text(each, "bold red") for each in found.get("stuck_checkpoints", ())]
    return Group(Text(head), *slow, table)


def bottleneck_text(bottleneck: dict[str, Any]) -> str:
    """Say in words which vertex the job waits for.

    >>> bottleneck_text({"vertex": 1, "name": "enrich", "subtask": 0, "busy": 0.92, "held_back": 0.8, "since": 0, "between": [0]})
    'enrich is the bottleneck: subtask 0 is 92 % busy; input held back for 80 % of the time since 0:00:00'
    """
    known = Bottleneck(**{**bottleneck, "between": tuple(bottleneck["between"])})
    return known.text(moment(known.since))
