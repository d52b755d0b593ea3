"""``funken service``: one address for all jobs of this user, those that are over included."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click

from funken import config
from funken.cli.failures import conf_option
from funken.cli.jobs import (
    VERTEX_COLUMNS,
    as_json_option,
    duration,
    errors_as_text,
    moment,
    print_json,
    print_rows,
    vertex_cells,
)
from funken.config import Configuration
from funken.errors import RequestRejected, RestServerFailed
from funken.rest.archive import Archive, archive_folder
from funken.rest.server import RestServer
from funken.rest.service import Drivers, Leaders
from funken.rest.serving import available
from funken.rest.settings import rest_settings
from funken.runtime.log_entries import log_line

_FLINKS_PORT = 8081


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65_535), help=f"Where to listen; 0: any free port.  [default: {_FLINKS_PORT}]"
)
@conf_option
def service(port: int | None, configuration: Configuration) -> None:
    """Show all jobs of this user at one address: those that run in any process, and those that are over.

    It serves the REST API and the dashboard until Ctrl-C. Jobs do not depend on it: it may be stopped and started at any time.
    -D takes the options rest.* and jobmanager.archive.fs.dir; with high-availability.storageDir it also shows the jobs whose
    leaders are noted there, on any machine.
    """
    if port is not None:
        configuration.set(config.REST_PORT, port)
    elif not {config.REST_PORT.key, config.REST_BIND_PORT.key} & set(configuration):
        configuration.set(config.REST_PORT, _FLINKS_PORT)
    ended = threading.Event()
    with errors_as_text():
        server = service_server(configuration)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        click.echo(f"Jobs of this user: {server.url}")
        while not ended.wait(1.0):
            if not server.serves:
                raise click.ClickException("the server has ended; its log says why.")
    finally:
        server.close()


def service_server(configuration: Configuration) -> RestServer:
    """Start the server; raises ``RestServerFailed`` if that is not possible."""
    if not available():
        raise RestServerFailed("The service needs packages that are not installed: pip install 'funken[rest]'.")
    from funken.rest.service import service_application  # noqa: PLC0415 - its packages are an extra

    leaders = Leaders.of(configuration)
    drivers = Drivers() if leaders is None else Drivers(also=leaders.addresses)
    archive = Archive(archive_folder(configuration))
    return RestServer(
        rest_settings(configuration), lambda _, settings: service_application(drivers, archive, settings), "service"
    )


# ---- ``funken history``: the jobs that are over, from the archive; their drivers need not be there any more.


@click.command()
@click.argument("wanted", metavar="[JOB]", required=False)
@click.option("--dir", "folder", metavar="DIR", help="The folder of the archive (jobmanager.archive.fs.dir).")
@click.option(
    "--lines", "-n", type=click.IntRange(0), default=10, show_default=True, help="How many log records of JOB."
)
@as_json_option
def history(wanted: str | None, folder: str | None, lines: int, as_json: bool) -> None:
    """List the jobs that are over, newest first; with JOB, show how it ended.

    JOB is an id, the beginning of one, or a name: of several of that name, the newest.
    """
    configuration = Configuration()
    if folder is not None:
        configuration.set(config.ARCHIVE_DIR, folder)
    found = archive_folder(configuration)
    if folder is not None and not Path(folder).is_dir():
        raise click.ClickException(f"there is no folder {folder!r}.")
    archive = Archive(found)
    entries = archive.overview()
    if wanted is not None:
        _show(archive, _chosen(entries, wanted), lines, as_json)
    elif as_json:
        print_json(entries)
    elif not entries:
        click.echo(f"No job is archived{'' if found is None else f' in {found}'}.")
    else:
        cells = (
            (*(each[name] for name in ("jid", "name", "state")), moment(each["end-time"]), duration(each["duration"]))
            for each in entries
        )
        print_rows(("job", "name", "state", "ended", "duration"), cells)


def _chosen(entries: list[dict[str, object]], wanted: str) -> str:
    """Return the id of the job that is meant; raises ``ClickException`` if there is none, or more than one."""
    ids = [str(each["jid"]) for each in entries]
    if wanted in ids:
        return wanted
    named = [str(each["jid"]) for each in entries if each["name"] == wanted]
    begun = [job_id for job_id in ids if job_id.startswith(wanted)]
    if not named and len(begun) != 1:
        raise click.ClickException(
            f"{'more than one archived job begins with' if begun else 'no archived job is'} {wanted!r}; "
            "'funken history' lists them."
        )
    return named[0] if named else begun[0]


def _show(archive: Archive, job_id: str, lines: int, as_json: bool) -> None:
    try:
        answers = archive.answers(job_id)
    except RequestRejected as error:
        raise click.ClickException(str(error)) from error
    job, failures = answers[f"/jobs/{job_id}"], answers.get(f"/jobs/{job_id}/exceptions", {})
    checkpoints = answers.get(f"/jobs/{job_id}/checkpoints", {}).get("counts", {})
    logs = answers.get(f"/jobs/{job_id}/logs", {}).get("records", [])
    if as_json:
        print_json(job | {"exceptions": failures, "checkpoints": checkpoints, "logs": logs[-lines:] if lines else []})
        return
    click.echo(f"{job['name']}  ({job_id})  {job['state']} after {duration(job['duration'])}")
    click.echo(f"started {moment(job['start-time'])}, ended {moment(job['end-time'])}")
    print_rows(VERTEX_COLUMNS, map(vertex_cells, job["vertices"]))
    if checkpoints:
        click.echo(f"{checkpoints['completed']} checkpoints completed, {checkpoints['failed']} failed")
    if failures.get("root-exception"):
        click.echo(f"\nnewest failure, {moment(failures['timestamp'])}: {failures['root-exception']}")
    if lines and logs:
        click.echo("\n" + "\n".join(log_line(entry) for entry in logs[-lines:]))
