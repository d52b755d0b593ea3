"""What a leader election is to a job, and the one that the options choose.

An election is started once. It grants leadership at most once, and takes it away at most once; a driver that lost it ends,
and is started again as a standby by whatever supervises it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from funken import config
from funken.config import Configuration
from funken.errors import InvalidConfiguration
from funken.io.storage import Storage, open_storage
from funken.leaderelection.lease import LeaseElection
from funken.leaderelection.zookeeper import ZooKeeperElection

FOLDER = "_high-availability"


class LeaderElection(Protocol):
    """One driver's part in an election."""

    name: str
    """Which election it is; terms of one election can be compared."""
    granted: threading.Event
    """Set when this driver leads."""
    term: int
    """In which term, from then on."""

    def start(self, lost: Callable[[str], None]) -> None:
        """Become a candidate; raises ``EnvironmentNotReady`` if that is not possible.

        ``lost`` is called, from another thread, when this driver has led and does not any more.
        """

    def close(self) -> None:
        """Be no candidate any more; if this driver leads, the next one need not wait."""


def with_high_availability(configuration: Configuration) -> Configuration:
    """Return the configuration of a job that several drivers may run: it has an id that they share.

    Raises ``InvalidConfiguration`` if there is nothing that another driver could resume from.

    >>> conf = {"high-availability.type": "lease", "high-availability.cluster-id": "orders"}
    >>> conf |= {"execution.checkpointing.interval": "1 s", "execution.checkpointing.dir": "/checkpoints"}
    >>> with_high_availability(Configuration(conf)).get(config.JOB_ID)
    'orders'
    """
    get = configuration.get
    kind = get(config.HA_TYPE)
    if kind == "none":
        return configuration
    if get(config.CHECKPOINT_INTERVAL) <= 0 or not get(config.CHECKPOINT_DIR):
        raise InvalidConfiguration(
            f"option {config.HA_TYPE.key!r} is {kind!r}, but a standby has no checkpoint to take the job over from. Set "
            f"{config.CHECKPOINT_INTERVAL.key}, and {config.CHECKPOINT_DIR.key} to a place that all drivers reach."
        )
    if kind == "zookeeper" and not get(config.HA_ZOOKEEPER_QUORUM):
        raise InvalidConfiguration(
            f"option {config.HA_TYPE.key!r} is 'zookeeper', but {config.HA_ZOOKEEPER_QUORUM.key} is not set. Name the servers: "
            "host1:2181,host2:2181."
        )
    shared = configuration.copy()
    if not get(config.JOB_ID):
        shared.set(config.JOB_ID, get(config.HA_CLUSTER_ID))
    return shared


def storage_of(configuration: Configuration) -> Storage:
    """Return the folder in which the drivers of a job note who leads, and how it has ended."""
    get = configuration.get
    base = (get(config.HA_STORAGE) or get(config.CHECKPOINT_DIR)).rstrip("/")
    return open_storage(f"{base}/{FOLDER}/{get(config.HA_CLUSTER_ID)}/{get(config.JOB_ID)}")


def election_of(configuration: Configuration) -> LeaderElection | None:
    """Return this driver's part in the election of a job; ``None`` if it is the only driver.

    Raises ``EnvironmentNotReady`` if kazoo is missing, and needed.
    """
    get = configuration.get
    kind = get(config.HA_TYPE)
    if kind == "lease":
        return LeaseElection(storage_of(configuration).at("leader"), get(config.HA_LEASE) / 1000)
    if kind == "zookeeper":
        path = f"{get(config.HA_ZOOKEEPER_ROOT).rstrip('/')}/{get(config.HA_CLUSTER_ID)}/{get(config.JOB_ID)}"
        session, connect = get(config.HA_ZOOKEEPER_SESSION) / 1000, get(config.HA_ZOOKEEPER_CONNECTION) / 1000
        return ZooKeeperElection(get(config.HA_ZOOKEEPER_QUORUM), path, session, connect)
    return None
