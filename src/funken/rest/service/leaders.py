"""The leaders of jobs that several drivers may run, on any machine, as their storage names them.

The token that requests to them carry is the service's own: whoever can write in that storage can have it sent to any address,
and could also replace the checkpoints from which a job starts.
"""

from __future__ import annotations

import logging
import socket
import threading
from urllib.parse import urlsplit

from funken import config
from funken.config import Configuration
from funken.errors import CheckpointError, InvalidConfiguration
from funken.leaderelection.addresses import LeaderAddress, published
from funken.rest.addresses import ServerAddress
from funken.rest.settings import is_loopback
from funken.timing.clock import Clock, SystemClock

logger = logging.getLogger(__name__)

_KEEP_SECONDS = 5.0


class Leaders:
    """The addresses below one storage folder, from any thread; a storage that cannot be read costs a warning, not the service."""

    def __init__(
        self, directory: str, token_file: str = "", certificate: str = "", clock: Clock | None = None, host: str = ""
    ) -> None:
        self._directory = directory
        self._token_file = token_file
        self._certificate = certificate
        self._clock = clock or SystemClock()
        self._host = host or socket.gethostname()
        self._lock = threading.Lock()
        self._looked: float | None = None
        self._found: list[ServerAddress] = []
        self._refusal = ""

    @classmethod
    def of(cls, configuration: Configuration) -> Leaders | None:
        """Return those that the options of a service name; ``None`` if these name no storage.

        Raises ``InvalidConfiguration`` if there is an election, and no place to look.
        """
        get = configuration.get
        directory = get(config.HA_STORAGE) or get(config.CHECKPOINT_DIR)
        if not directory:
            if get(config.HA_TYPE) != "none":
                raise InvalidConfiguration(
                    f"option {config.HA_TYPE.key!r} is {get(config.HA_TYPE)!r}, but neither {config.HA_STORAGE.key} nor "
                    f"{config.CHECKPOINT_DIR.key} says where leaders can be found. Set what the drivers have."
                )
            return None
        return cls(directory, get(config.REST_TOKEN_FILE), get(config.REST_CERTIFICATE))

    def addresses(self) -> list[ServerAddress]:
        """Return the servers of leaders that can be reached from here: loopback of another machine cannot."""
        with self._lock:
            now = self._clock.monotonic()
            if self._looked is None or now - self._looked >= _KEEP_SECONDS:
                self._found = self._look()
                self._looked = now
            return self._found

    def _look(self) -> list[ServerAddress]:
        try:
            found = published(self._directory)
        except CheckpointError as error:
            if str(error) != self._refusal:
                self._refusal = str(error)
                logger.warning("leaders of jobs cannot be looked for: %s", error)
            return self._found
        self._refusal = ""
        token, certificate = self._token_file, self._certificate
        return [ServerAddress(0, each.url, token, certificate) for each in found if self._is_reachable(each)]

    def _is_reachable(self, leader: LeaderAddress) -> bool:
        return leader.host == self._host or not is_loopback(urlsplit(leader.url).hostname or "")
