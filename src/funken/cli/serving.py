"""What the command line does about the REST server of a job: print its address, and open the dashboard."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from funken import config
from funken.api.jobs.client import JobClient
from funken.config import Configuration
from funken.rest.jobs import public_id
from funken.rest.server import available


def with_dashboard(configuration: Configuration, wanted: bool) -> Configuration:
    """Switch the server on for a job of this process too, if the dashboard is wanted and can be had."""
    if wanted and not configuration.contains_key(config.REST_ENABLED.key) and available():
        configuration.set(config.REST_ENABLED, "true")
    return configuration


class Announcer:
    """Prints the address of each job that begins, once; ``open_browser`` opens the first one."""

    def __init__(self, open_browser: bool = False, browse: Callable[[str], object] = webbrowser.open) -> None:
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
                self._browse(address)
        elif self._open:
            click.echo("There is no dashboard to open: pip install 'funken[rest]'.", err=True)
        yield
