"""The served jobs: the only part of the REST API that a job without a server loads."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from functools import cache

from funken import config
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import RestServerFailed
from funken.rest.jobs import ServedJob

logger = logging.getLogger(__name__)

_NEEDED = ("starlette", "uvicorn")


def available() -> bool:
    """Return True if the packages of the extra are installed."""
    return all(importlib.util.find_spec(name) is not None for name in _NEEDED)


@dataclass(frozen=True, slots=True)
class Shown:
    """A job at a server: the address, and ``close`` for when the job is over, after which the server shows how it ended."""

    url: str
    close: Callable[[], None]


def serve(configuration: Configuration, job: ServedJob, by_default: bool) -> Shown | None:
    """Show a job at the server of this process, which is started if it is the first one.

    ``by_default`` is what ``rest.enabled: auto`` means for this job; a job whose configuration names a port has a server, too,
    but goes on without one where the port is taken. Returns ``None`` if it has no server; raises ``RestServerFailed`` if it has
    to have one that cannot be started.
    """
    enabled = configuration.get(config.REST_ENABLED)
    asked = bool({config.REST_PORT.key, config.REST_BIND_PORT.key} & set(configuration))
    if enabled == "false" or (enabled == "auto" and not by_default and not asked):
        return None
    if not available():
        if enabled == "true":
            raise RestServerFailed("REST server: its packages are not installed. pip install 'funken[rest]'.")
        _tell_once()
        return None
    from funken.rest.server import shown  # noqa: PLC0415 - 50 modules, which most local jobs do not need

    try:
        return Shown(*shown(configuration, job, by_default))
    except RestServerFailed as error:
        if enabled == "true" or by_default:
            raise
        logger.warning("%s The job goes on without a server.", error)
        return None


@cache
def _tell_once() -> None:
    logger.info("no REST server and no dashboard: pip install 'funken[rest]', or set rest.enabled to false.")
