"""The drivers of this user and their jobs, found in the registry folder, and others where jobs' leaders are noted.

They are asked by their REST API.

What they answer is kept for a second. All are asked at the same time and for a bounded time: one that is frozen delays the
others by no more than that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from funken.errors import FunkenError
from funken.rest.addresses import ServerAddress, registered
from funken.rest.client import RestClient
from funken.timing.clock import Clock, SystemClock

_ASK_SECONDS = 2.0
_KEEP_SECONDS = 1.0
_AT_A_TIME = 8


class Drivers:
    """Who has which job, from any thread."""

    def __init__(
        self, found: Callable[[], list[ServerAddress]] = registered, clock: Clock | None = None,
        also: Callable[[], list[ServerAddress]] = list,
    ) -> None:  # fmt: skip
        self._registered = found
        self._also = also
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._asked: float | None = None
        self._jobs: dict[str, tuple[RestClient, dict[str, Any]]] = {}

    def jobs(self) -> dict[str, tuple[RestClient, dict[str, Any]]]:
        """Return the jobs by id: the driver, and the entry in its ``/jobs/overview``."""
        with self._lock:
            now = self._clock.monotonic()
            if self._asked is None or now - self._asked >= _KEEP_SECONDS:
                self._jobs = self._ask()
                self._asked = self._clock.monotonic()
            return self._jobs

    def _ask(self) -> dict[str, tuple[RestClient, dict[str, Any]]]:
        own = [address for address in self._registered() if address.kind == "driver"]
        urls = {address.url for address in own}  # of these it is known which token they want
        addresses = own + [address for address in self._also() if address.url not in urls]
        if not addresses:
            return {}
        found: dict[str, tuple[RestClient, dict[str, Any]]] = {}
        with ThreadPoolExecutor(min(_AT_A_TIME, len(addresses)), "funken-service") as pool:
            for client, entries in pool.map(_entries_of, addresses):
                for entry in entries:
                    known = found.get(entry["jid"])
                    if known is None or _rank(entry) > _rank(known[1]):  # of leader and standby, the leader
                        found[entry["jid"]] = client, entry
        return found

    def all(self, *path: str) -> list[Any]:
        """Return what each driver that has a job answers at a path; those that do not answer are left out."""
        clients = {client.url: client for client, _ in self.jobs().values()}
        found = []
        for client in clients.values():
            try:
                found.append(client.get(*path))
            except FunkenError:
                continue
        return found

    def first(self, target: str) -> tuple[int, str, bytes] | None:
        """Return the first answer of a driver to a GET that knows what it is about: status, type, body."""
        for client in {client.url: client for client, _ in self.jobs().values()}.values():
            try:
                found = client.forward("GET", target, b"", "")
            except FunkenError:
                continue
            if found[0] != 404:
                return found
        return None


def _entries_of(address: ServerAddress) -> tuple[RestClient, list[dict[str, Any]]]:
    client = RestClient(address.url)
    try:
        client = RestClient.of(address, _ASK_SECONDS)
        return RestClient.of(address), list(client.get("jobs", "overview")["jobs"])
    except (FunkenError, KeyError, TypeError, OSError):
        return client, []


def _rank(entry: dict[str, Any]) -> tuple[bool, int]:
    return entry["state"] == "RUNNING", int(entry["start-time"])
