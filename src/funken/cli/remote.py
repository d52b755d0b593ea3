"""How commands find a job: among the servers of this user's processes, or at an address; by id, the beginning of one, or name."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import click

from funken.dataclass import dataclass
from funken.errors import RequestRejected, ServerNotReached
from funken.rest.addresses import registered
from funken.rest.client import RestClient
from funken.rest.settings import read_token

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
        """Whether it has ended."""
        return self.entry["state"] in OVER

    def get(self, *path: str, **query: str) -> Any:
        """Return what is below the job's path."""
        return self.client.get("jobs", self.id, *path, **query)


_Answer: TypeAlias = list[FoundJob] | ServerNotReached | RequestRejected


def remote_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--url``, ``--token-file`` and ``--certificate``."""
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
