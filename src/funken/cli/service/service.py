"""``funken service``: one address for all jobs of this user, those that are over included."""

from __future__ import annotations

import signal
import threading

import click

from funken import config
from funken.cli.jobs import errors_as_text
from funken.cli.options import conf_option
from funken.config import Configuration
from funken.errors import RestServerFailed
from funken.rest.archive import Archive, archive_folder
from funken.rest.server import RestServer, available
from funken.rest.service.drivers import Drivers
from funken.rest.service.leaders import Leaders
from funken.rest.settings import rest_settings

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
    from funken.rest.service.app import service_application  # noqa: PLC0415 - its packages are an extra

    leaders = Leaders.of(configuration)
    drivers = Drivers() if leaders is None else Drivers(also=leaders.addresses)
    archive = Archive(archive_folder(configuration))
    return RestServer(
        rest_settings(configuration), lambda _, settings: service_application(drivers, archive, settings), "service"
    )
