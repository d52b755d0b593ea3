"""The options of high availability; Flink's names where Flink has the option."""

from __future__ import annotations

from funken.config.options import _option
from funken.config.parsing import at_least, one_of, text
from funken.config.values import duration_ms

HA_TYPE = _option(
    "high-availability.type",
    one_of("none", "lease", "zookeeper"),
    "none",
    "How several drivers of a job agree which of them runs it; the others are standbys. lease: by a file in "
    "high-availability.storageDir; zookeeper: needs `pip install 'funken[zookeeper]'`.",
)
HA_CLUSTER_ID = _option(
    "high-availability.cluster-id",
    text,
    "default",
    "What the drivers of one job have in common. It is the job's id too, if execution.job-id is not set.",
)
HA_STORAGE = _option(
    "high-availability.storageDir",
    text,
    "",
    "Where leases are, and how jobs have ended; all drivers have to reach it. Empty: execution.checkpointing.dir.",
)
HA_LEASE = _option(
    "high-availability.lease.duration",
    at_least(500, duration_ms),
    6_000,
    "For how long (ms) a leader leads that is silent. A standby takes over when it has seen no renewal for so long.",
)
HA_ZOOKEEPER_QUORUM = _option(
    "high-availability.zookeeper.quorum", text, "", "The servers of ZooKeeper: `host1:2181,host2:2181`."
)
HA_ZOOKEEPER_ROOT = _option(
    "high-availability.zookeeper.path.root", text, "/funken", "The node of ZooKeeper below which all is kept."
)
HA_ZOOKEEPER_SESSION = _option(
    "high-availability.zookeeper.client.session-timeout",
    at_least(500, duration_ms),
    6_000,
    "After how long (ms) without a sign of life ZooKeeper lets a standby take over; its server bounds this.",
)
HA_ZOOKEEPER_CONNECTION = _option(
    "high-availability.zookeeper.client.connection-timeout",
    at_least(500, duration_ms),
    15_000,
    "How long (ms) a driver tries to reach ZooKeeper when it starts; after that its job fails. A driver that has reached it "
    "once goes on trying.",
)

__all__ = [
    "HA_CLUSTER_ID",
    "HA_LEASE",
    "HA_STORAGE",
    "HA_TYPE",
    "HA_ZOOKEEPER_CONNECTION",
    "HA_ZOOKEEPER_QUORUM",
    "HA_ZOOKEEPER_ROOT",
    "HA_ZOOKEEPER_SESSION",
]
