"""``funken list, info, cancel, stop, savepoint, checkpoint, rescale, metrics`` and others: jobs that run, by REST.

Exit codes: 0, 1 if there is no such job or it refuses or the operation fails, 2 for a wrong command line.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeAlias

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from funken.checkpoint.store.completed import dispose_savepoint
from funken.dataclass import dataclass
from funken.errors import FunkenError, RequestRejected, ServerNotReached
from funken.rest.client import RestClient
from funken.rest.settings import read_token, registered
from funken.runtime.log_entries import log_line

# ---- How commands find a job: among the servers of this user's processes, or at an address; by id, the beginning
# of one, or name.


OVER = ("FINISHED", "FAILED", "CANCELED", "SUSPENDED")
_FROZEN_SECONDS = 3.0
"""So long each of several drivers has to answer."""


@dataclass(frozen=True)
class FoundJob:
    """A job at a server: its entry in ``/jobs/overview``."""

    client: RestClient
    entry: dict[str, Any]

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.entry["jid"])

    @property
    def is_over(self) -> bool:
        """True if the job has ended."""
        return self.entry["state"] in OVER

    def get(self, *path: str, **query: str) -> Any:
        """Return the answer at a path below the job's."""
        return self.client.get("jobs", self.id, *path, **query)


_Answer: TypeAlias = list[FoundJob] | ServerNotReached | RequestRejected


def remote_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--url``, ``--token-file`` and ``--certificate`` to a command."""
    for option in (
        click.option(
            "--certificate", type=click.Path(exists=True, dir_okay=False), help="Trust this certificate (PEM)."
        ),
        click.option(
            "--token-file", type=click.Path(exists=True, dir_okay=False), help="The file with the server's token."
        ),
        click.option(
            "--url", metavar="URL", help="The address of a driver; without it, those of this user's processes."
        ),
    ):
        command = option(command)
    return command


def clients(url: str | None, token_file: str | None, certificate: str | None) -> list[RestClient]:
    """Return the servers to ask."""
    if url is not None:
        return [RestClient(url, read_token(token_file) if token_file else "", certificate or "")]
    return [RestClient.of(address) for address in registered() if address.kind == "driver"]


def all_jobs(servers: list[RestClient], tolerant: bool, seconds: float = _FROZEN_SECONDS) -> list[FoundJob]:
    """Return the jobs of all servers, newest first; with ``tolerant``, a server that does not answer costs a warning.

    All are asked at the same time, and each has so many seconds: drivers that are frozen delay nobody twice. One that was named,
    perhaps far away, has longer.
    """
    if not tolerant:
        answers: list[_Answer] = [_jobs_of(server) for server in servers]
    elif not servers:
        answers = []
    else:
        with ThreadPoolExecutor(len(servers)) as threads:
            answers = [*threads.map(lambda server: _jobs_of(server, seconds), servers)]
    found: list[FoundJob] = []
    for answer in answers:
        if isinstance(answer, list):
            found += answer
        elif tolerant:
            click.echo(f"Warning: {answer}", err=True)
        else:
            raise answer
    return sorted(found, key=lambda job: job.entry["start-time"], reverse=True)


def _jobs_of(server: RestClient, seconds: float | None = None) -> _Answer:
    try:
        overview = server.get("jobs", "overview") if seconds is None else server.within(seconds).get("jobs", "overview")
        return [FoundJob(server, entry) for entry in overview["jobs"]]
    except (ServerNotReached, RequestRejected) as error:
        return error


def find_job(servers: list[RestClient], wanted: str | None, at_specified_url: bool) -> FoundJob:
    """Return the one job that is meant; raises ``ClickException`` if there is none, or more than one.

    Without ``wanted``, the only job that runs is meant.
    """
    jobs = all_jobs(servers, tolerant=not at_specified_url)
    if wanted is None:
        chosen = [job for job in jobs if not job.is_over]
        if not chosen and len(jobs) == 1:
            chosen = jobs
        text = "no job runs here" if not chosen else "more than one job runs here, so name one"
    else:
        exact = [job for job in jobs if job.id == wanted]
        named = [job for job in jobs if job.entry["name"] == wanted]
        running = [job for job in named if not job.is_over]
        begun = [job for job in jobs if job.id.startswith(wanted)]
        chosen = exact or running or named or begun
        text = f"there is no job {wanted!r}" if not chosen else f"more than one job is {wanted!r}"
    if len(chosen) == 1:
        return chosen[0]
    known = "".join(f"\n  {job.id}  {job.entry['state']:9}  {job.entry['name']}" for job in (chosen or jobs))
    hint = (
        f" Known:{known}"
        if known
        else " 'funken list' shows those of this user's processes; --url asks another driver."
    )
    raise click.ClickException(f"{text}.{hint}")


_POLL_SECONDS = 0.2


def job_command(name: str, optional: bool = False) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command that gets a ``FoundJob`` first: its JOB argument, ``--url`` and their like, and ``--json``."""

    def decorate(function: Callable[..., None]) -> click.Command:
        def run(
            wanted: str | None, url: str | None, token_file: str | None, certificate: str | None, **options: Any
        ) -> None:
            with errors_as_text():
                function(find_job(clients(url, token_file, certificate), wanted, url is not None), **options)

        run.__doc__ = function.__doc__
        run.__dict__.update(function.__dict__)  # the options that click's decorators left there
        found: Callable[..., Any] = click.argument(
            "wanted", metavar="[JOB]" if optional else "JOB", required=not optional
        )(run)
        return click.command(name)(remote_options(as_json_option(found)))

    return decorate


def as_json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json`` to a command."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


@contextmanager
def errors_as_text() -> Iterator[None]:
    """Turn an error of a server into one of the command line: its text, and exit code 1."""
    try:
        yield
    except FunkenError as error:
        raise click.ClickException(str(error)) from error


@click.command("list")
@click.option("--all", "-a", "with_ended", is_flag=True, help="Also jobs that are over, while their driver is there.")
@as_json_option
@remote_options
def list_jobs(
    with_ended: bool, as_json: bool, url: str | None, token_file: str | None, certificate: str | None
) -> None:
    """List the jobs of this user's processes, or of a driver."""
    with errors_as_text():
        jobs = all_jobs(clients(url, token_file, certificate), tolerant=url is None)
    shown = [job for job in jobs if with_ended or not job.is_over]
    if as_json:
        print_json([job.entry | {"url": job.client.url} for job in shown])
        return
    if not shown:
        click.echo("No job runs." if not with_ended else "There are no jobs.")
        return
    print_rows(("job", "name", "state", "duration", "tasks running", "dashboard"), map(_listed, shown))


def _listed(job: FoundJob) -> tuple[str, ...]:
    tasks = job.entry["tasks"]
    return (
        job.id, job.entry["name"], job.entry["state"], duration(job.entry["duration"]),
        f"{tasks['running']} of {tasks['total']}", f"{job.client.url}/#/jobs/{job.id}",
    )  # fmt: skip


@job_command("info", optional=True)
def info(job: FoundJob, as_json: bool) -> None:
    """Show a job: its vertices, how busy they are, and its newest failure.

    JOB is an id, the beginning of one, or a name; it may be left out if one job runs.
    """
    found = job.get()
    failures = job.get("exceptions", maxExceptions="1")
    if as_json:
        print_json(found | {"exceptions": failures})
        return
    click.echo(f"{found['name']}  ({found['jid']})  {found['state']} for {duration(found['duration'])}")
    click.echo(f"started {moment(found['start-time'])}, {job.client.url}/#/jobs/{job.id}")
    print_rows((*VERTEX_COLUMNS, "busy", "back-pressured"), (_loaded(job, vertex) for vertex in found["vertices"]))
    for failure in failures["exceptionHistory"]["entries"]:
        click.echo(f"\nnewest failure, {moment(failure['timestamp'])}: {failure['stacktrace']}")


VERTEX_COLUMNS = ("vertex", "state", "subtasks", "records in", "records out")


def vertex_cells(vertex: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a vertex as the REST API has it, one per column of ``VERTEX_COLUMNS``."""
    moved = vertex["metrics"]
    counts = f"{moved['read-records']:,}", f"{moved['write-records']:,}"
    return vertex["name"], vertex["status"], str(vertex["parallelism"]), *counts


def _loaded(job: FoundJob, vertex: dict[str, Any]) -> tuple[str, ...]:
    load = job.get("vertices", vertex["id"], "backpressure")["subtasks"]
    busy, pressed = (max((each[name] for each in load), default=0) for name in ("busyRatio", "ratio"))
    return *vertex_cells(vertex), f"{busy:.0%}", f"{pressed:.0%}"


@job_command("cancel")
def cancel(job: FoundJob, as_json: bool, no_wait: bool, timeout: float) -> None:
    """Cancel a job; its state is not saved.

    JOB is an id, the beginning of one, or a name.
    """
    job.client.patch("jobs", job.id, mode="cancel")
    state = "CANCELLING" if no_wait else wait_for_end(job, timeout)
    print_result(as_json, {"jid": job.id, "state": state}, f"{job.entry['name']} ({job.id}) is {state}.")


@click.command("savepoint")
@click.argument("wanted", metavar="[JOB]", required=False)
@click.option("--dispose", "-d", "disposed", metavar="PATH", help="Delete this savepoint instead; needs no job.")
@as_json_option
@remote_options
def savepoint(
    wanted: str | None, disposed: str | None, url: str | None, token_file: str | None, certificate: str | None,
    as_json: bool, directory: str | None, timeout: float,
) -> None:  # fmt: skip
    """Save the state of a job, which keeps running; print the savepoint's path.

    JOB is an id, the beginning of one, or a name. With --dispose, delete a savepoint: only the files that it names.
    """
    if (wanted is None) == (disposed is None):
        raise click.UsageError("Name a JOB to save, or --dispose with the PATH of a savepoint to delete.")
    with errors_as_text():
        if disposed is not None:
            dispose_savepoint(disposed)
            print_result(as_json, {"disposed": disposed}, f"{disposed} is deleted.")
            return
        job = find_job(clients(url, token_file, certificate), wanted, url is not None)
        _save(job, as_json, directory, timeout)


def _save(job: FoundJob, as_json: bool, directory: str | None, timeout: float) -> None:
    begun = job.client.post("jobs", job.id, "savepoints", body={"target-directory": directory, "cancel-job": False})
    finish_savepoint(job, begun["request-id"], as_json, timeout)


@job_command("checkpoint")
def checkpoint(job: FoundJob, as_json: bool, timeout: float) -> None:
    """Make a checkpoint of a job now, as an interval would; print its path.

    JOB is an id, the beginning of one, or a name. A checkpoint belongs to its job, which deletes it when newer ones are there; a
    savepoint stays.
    """
    begun = job.client.post("jobs", job.id, "checkpoints", body={"checkpointType": "CONFIGURED"})
    done = operation_of(job, "checkpoints", begun["request-id"], "the checkpoint", timeout)
    found = job.get("checkpoints", "details", str(done["checkpointId"]))
    made = {"jid": job.id, "checkpointId": done["checkpointId"], "location": found["external_path"]}
    print_result(as_json, made, found["external_path"])


@job_command("stop")
def stop(job: FoundJob, as_json: bool, directory: str | None, drain: bool, timeout: float) -> None:
    """Save the state of a job and end it; print the savepoint's path.

    JOB is an id, the beginning of one, or a name.
    """
    begun = job.client.post("jobs", job.id, "stop", body={"targetDirectory": directory, "drain": drain})
    finish_savepoint(job, begun["request-id"], as_json, timeout)


@job_command("rescale")
def rescale(job: FoundJob, as_json: bool, parallelism: int, timeout: float) -> None:
    """Resume a job with another parallelism, from a checkpoint that is taken now.

    Operators whose parallelism the program sets keep it. JOB is an id, the beginning of one, or a name.
    """
    begun = job.client.patch("jobs", job.id, "rescaling", parallelism=str(parallelism))
    found = operation_of(job, "rescaling", begun["request-id"], "the rescaling", timeout)
    text = f"{job.entry['name']} ({job.id}) runs with parallelism {found['parallelism']}."
    print_result(as_json, {"jid": job.id} | found, text)


_timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait.",
)
_directory = click.option(
    "--savepoint-dir",
    "directory",
    metavar="DIR",
    help="A path or URI; without it, the one that the job is set up with.",
)
_timeout(
    click.option("--parallelism", "-p", type=click.IntRange(1), required=True, help="Subtasks per operator.")(rescale)
)
_timeout(_directory(savepoint))
_timeout(checkpoint)
_timeout(_directory(stop))
click.option("--drain", "-d", is_flag=True, help="Fire all windows and event-time timers first.")(stop)
_timeout(click.option("--no-wait", is_flag=True, help="Do not wait until the job is over.")(cancel))


@job_command("checkpoints", optional=True)
def checkpoints(job: FoundJob, as_json: bool, limit: int) -> None:
    """List the newest checkpoints of a job, newest first; the driver knows up to 50.

    JOB is an id, the beginning of one, or a name; it may be left out if one job runs.
    """
    found = job.get("checkpoints")
    if as_json:
        print_json(found)
        return
    counts = found["counts"]
    click.echo(", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in ("completed", "failed", "in_progress")))
    if found["history"]:
        columns = ("id", "kind", "status", "triggered", "duration", "bytes", "acknowledged", "where, or why not")
        print_rows(columns, map(_checkpointed, found["history"][:limit]))


def _checkpointed(each: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(each["id"]), each["checkpoint_type"].lower(), each["status"], moment(each["trigger_timestamp"]),
        duration(each["end_to_end_duration"]), f"{each['state_size']:,}",
        f"{each['num_acknowledged_subtasks']} of {each['num_subtasks']}",
        each.get("failure_message") or ("(deleted)" if each.get("discarded") else each.get("external_path")) or "",
    )  # fmt: skip


click.option("--limit", "-n", type=click.IntRange(1), default=10, show_default=True, help="How many of them.")(
    checkpoints
)


@job_command("metrics", optional=True)
def metrics(job: FoundJob, as_json: bool, part: str) -> None:
    """Print the metrics of a job, one per line: name and value.

    Those of the job come first, then those of subtasks, as VERTEX.SUBTASK.METRIC. JOB is an id, the beginning of one, or a
    name; it may be left out if one job runs.
    """
    found = values(job.get("metrics", get=names(job.get("metrics"))))
    for vertex in job.get()["vertices"]:
        path = ("vertices", vertex["id"], "metrics")
        mine = values(job.get(*path, get=names(job.get(*path))))
        found |= {f"{vertex['name']}.{name}": value for name, value in mine.items()}
    found = {name: value for name, value in found.items() if part.lower() in name.lower()}
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        click.echo(f"{name} {value}")


click.option("--only", "part", default="", metavar="TEXT", help="Only metrics with this in their name.")(metrics)


def names(listed: list[dict[str, str]]) -> str:
    """Return the names of metrics as a query takes them."""
    return ",".join(each["id"] for each in listed)


def values(read: list[dict[str, str]]) -> dict[str, str]:
    """Return metrics by name."""
    return {each["id"]: each["value"] for each in read}


def operation_of(job: FoundJob, path: str, trigger: str, what: str, timeout: float) -> dict[str, Any]:
    """Wait for an operation and return its result; raises ``ClickException`` if it fails or takes too long."""
    until = time.monotonic() + timeout
    while True:
        try:
            found = job.get(path, trigger)
        except ServerNotReached as error:
            raise click.ClickException(
                f"the driver of job {job.id} has ended before it reported the result of {what}. 'funken "
                f"history {job.id}' shows how "
                "the job ended, if it is archived."
            ) from error
        if found["status"]["id"] == "COMPLETED":
            break
        if time.monotonic() >= until:
            raise click.ClickException(f"{what} is not complete after {timeout:g} s; it continues, as {trigger}.")
        time.sleep(_POLL_SECONDS)
    operation: dict[str, Any] = found["operation"]
    if "failure-cause" in operation:
        raise click.ClickException(f"{what} has failed: {operation['failure-cause']['stack-trace']}")
    return operation


def finish_savepoint(job: FoundJob, trigger: str, as_json: bool, timeout: float) -> None:
    """Wait for a savepoint and print its path; raises ``ClickException`` if it fails or takes too long."""
    location = operation_of(job, "savepoints", trigger, "the savepoint", timeout)["location"]
    print_result(as_json, {"jid": job.id, "location": location}, location)


def wait_for_end(job: FoundJob, timeout: float) -> str:
    """Wait until a job is over and return its state; raises ``ClickException`` if that takes too long."""
    until = time.monotonic() + timeout
    while True:
        state = str(job.get()["state"])
        if state in OVER:
            return state
        if time.monotonic() >= until:
            raise click.ClickException(f"the job is {state} after {timeout:g} s; its driver continues to end it.")
        time.sleep(_POLL_SECONDS)


# ---- texts


def duration(ms: int) -> str:
    """Return a duration as text.

    >>> duration(900), duration(75_000), duration(3 * 86_400_000 + 7_200_000)
    ('0.9 s', '0:01:15', '3 days, 2:00:00')
    """
    if ms < 0:
        return "-"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return str(datetime.timedelta(seconds=ms // 1000))


def moment(ms: int | None) -> str:
    """Return a time of the wall clock as text, in the local time zone."""
    if ms is None or ms < 0:
        return "-"
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def print_result(as_json: bool, data: Any, text: str) -> None:
    """Print data as JSON, or a text."""
    if as_json:
        print_json(data)
    else:
        click.echo(text)


def print_json(data: Any) -> None:
    """Print data as JSON."""
    click.echo(json.dumps(data, indent=2))


def new_table(*columns: str) -> Table:
    """Return a table without lines."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def wide_console() -> Console:
    """Return the console of standard output; a pipe gets whole lines."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 10_000
    return console


def print_rows(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> None:
    """Print rows of texts as a table."""
    table = new_table(*columns)
    for row in rows:
        table.add_row(*map(Text, row))
    wide_console().print(table)


# ---- ``funken logs``: what the tasks of a job have logged, once or as it comes.


_LOG_POLL_SECONDS = 0.5
_PAGE = 2_000


@job_command("logs", optional=True)
def logs(
    job: FoundJob, as_json: bool, follow: bool, lines: int, vertex: str | None, subtask: int | None, level: str
) -> None:
    """Print the logs of a job's tasks, and the fate of the job.

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
            time.sleep(_LOG_POLL_SECONDS)


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
