"""The options of the REST server and its dashboard, and of what is encrypted; Flink's names where Flink has the option."""

from __future__ import annotations

import re
from typing import Any

from funken.config.options import _option
from funken.config.parsing import at_least, integer, one_of, text
from funken.config.values import boolean, duration_ms

_HIGHEST_PORT = 65_535


def _port(value: Any) -> int:
    """Read a port; 0 is any free one."""
    number = integer(value)
    if not 0 <= number <= _HIGHEST_PORT:
        raise ValueError(f"{value!r} is not allowed; a port is from 0 to {_HIGHEST_PORT}")
    return number


def _ports(value: Any) -> str:
    """Read ports as Flink writes them: ``"8081"``, ``"8081-8090"``, ``"8081,8085-8090"``."""
    ranges = str(value).replace(" ", "")
    for part in filter(None, ranges.split(",")):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if found is None or _port(found[1]) > _port(found[2] or found[1]):
            raise ValueError(f"{value!r} is not allowed; write ports and ranges, as '8081' or '8081-8090,9090'")
    return ranges


REST_ENABLED = _option(
    "rest.enabled",
    one_of("auto", "true", "false"),
    "auto",
    "Whether the driver serves REST and the dashboard. auto: for jobs on Spark, if the extra is there (pip install "
    "'funken[rest]'); a job in this process (execution.target local) has none.",
)
REST_ADDRESS = _option(
    "rest.address",
    text,
    "127.0.0.1",
    "The host name or address by which clients reach the REST server. With anything but loopback, "
    "rest.authentication.token-file has to be set.",
)
REST_PORT = _option("rest.port", _port, 0, "The port of the REST server. 0: any free one; its address is logged.")
REST_BIND_ADDRESS = _option(
    "rest.bind-address", text, "", "The address that the REST server listens at. Empty: rest.address."
)
REST_BIND_PORT = _option(
    "rest.bind-port",
    _ports,
    "",
    "Ports for the REST server, of which it takes the first that is free: `8081`, `8081-8090,9090`. Empty: rest.port.",
)
REST_TOKEN_FILE = _option(
    "rest.authentication.token-file",
    text,
    "",
    "A file with the token that requests have to carry (`Authorization: Bearer ...`). It may be readable for its owner only.",
)
REST_CERTIFICATE = _option(
    "rest.ssl.certificate",
    text,
    "",
    "The certificate chain (PEM) with which the REST server speaks TLS. Empty: no TLS.",
)
REST_KEY = _option(
    "rest.ssl.key", text, "", "The private key (PEM) of rest.ssl.certificate. Empty: it is in that file."
)
REST_CACHE = _option(
    "rest.cache.execution-graph.timeout",
    at_least(0, duration_ms),
    500,
    "How old (ms) the picture of a job may be from which the REST server answers.",
)
JOB_STORE_CAPACITY = _option(
    "jobstore.max-capacity",
    at_least(0),
    20,
    "How many jobs that are over the REST server of a driver still shows; the newest ones.",
)

ARCHIVE_DIR = _option(
    "jobmanager.archive.fs.dir",
    text,
    "",
    "A folder in which each job that is over is archived, in Flink's format: what the REST API answered about it at the end. "
    "Empty: in the user's cache folder for jobs on Spark, not at all for a job in this process.",
    ("historyserver.archive.fs.dir",),
)
ARCHIVE_RETAINED = _option(
    "historyserver.archive.retained-jobs",
    at_least(1, or_else=-1),
    100,
    "How many jobs an archive keeps, the newest ones. -1: all.",
)
SSL_INTERNAL_ENABLED = _option(
    "security.ssl.internal.enabled",
    boolean,
    False,
    "Whether everything between the processes of a job is encrypted: Funken's own connections by TLS 1.3 with a certificate made "
    "for the job, which both sides present; what a continuous job shuffles, by sealing it; and in sessions that Funken starts, "
    "Spark's by `spark.authenticate`, `spark.network.crypto.enabled` and `spark.io.encryption.enabled`. Needs `pip install "
    "'funken[tls]'` where the driver runs, and where workers of continuous jobs do.",
)

__all__ = [
    "ARCHIVE_DIR",
    "ARCHIVE_RETAINED",
    "JOB_STORE_CAPACITY",
    "REST_ADDRESS",
    "REST_BIND_ADDRESS",
    "REST_BIND_PORT",
    "REST_CACHE",
    "REST_CERTIFICATE",
    "REST_ENABLED",
    "REST_KEY",
    "REST_PORT",
    "REST_TOKEN_FILE",
    "SSL_INTERNAL_ENABLED",
]
