"""The options of observation: history, metrics and their reporters."""

from __future__ import annotations

import re
from typing import Any

from funken.config.options import _option
from funken.config.values import at_least, boolean, duration_ms, integer, items_of, memory_bytes, one_of, text


def _names(value: Any) -> tuple[str, ...]:
    """Read names: a text with commas between them, a list of YAML, or several texts."""
    given = items_of(value, ",") if isinstance(value, str) else value
    names = tuple(str(name).strip() for name in given)
    names = tuple(name for name in names if name)
    if any("." in name for name in names):
        raise ValueError(f"{value!r} is not allowed; the name of a reporter has no dot")
    return names


_NO_NAMES: tuple[str, ...] = ()


def _any(value: Any) -> Any:
    return value


EXCEPTION_HISTORY_SIZE = _option(
    "web.exception-history-size",
    at_least(1),
    16,
    "How many of a job's newest failures its snapshot has.",
)
NOTEBOOK_INTERVAL = _option(
    "notebook.progress-interval",
    at_least(0, duration_ms),
    1000,
    "In a notebook, a job that runs for longer than this is shown below its cell, and the display replaced this often (ms). 0: "
    "never.",
)
LATENCY_INTERVAL = _option(
    "metrics.latency.interval",
    at_least(0, duration_ms),
    0,
    "How often (ms) sources emit latency markers, which queue with the records and show how long these are under way. 0: never.",
)
LATENCY_GRANULARITY = _option(
    "metrics.latency.granularity",
    one_of("single", "operator", "subtask"),
    "operator",
    "What the latencies of markers are told apart by: nothing, the source, or the subtask of the source.",
)
LATENCY_HISTORY = _option(
    "metrics.latency.history-size",
    at_least(1),
    128,
    "Of how many of the newest latency markers the percentiles are.",
)
METRIC_REPORTERS = _option(
    "metrics.reporters",
    _names,
    _NO_NAMES,
    "Names of reporters, with commas between them; each is described by `metrics.reporter.<name>.*`.",
)
REPORTER_CLASS = _option(
    "metrics.reporter.<name>.class",
    text,
    "",
    "What the reporter is: `log`, `json`, `prometheus`, `opentelemetry`, or a class of yours as `module:Class`. Its name, if "
    "nothing is said.",
)
REPORTER_FACTORY = _option(
    "metrics.reporter.<name>.factory.class",
    text,
    "",
    "The same as Flink names it: its factories for SLF4J, Prometheus and OpenTelemetry are known.",
)
REPORTER_INTERVAL = _option(
    "metrics.reporter.<name>.interval",
    at_least(10, duration_ms),
    10_000,
    "How often (ms) the reporter is given the metrics.",
)
REPORTER_OPTION = _option(
    "metrics.reporter.<name>.*",
    _any,
    "",
    "Any other option of the reporter: `path` of `json`; `host` and `port` of `prometheus`; `exporter.endpoint` of "
    "`opentelemetry`.",
)


# ---- The options about the logs of a job's tasks; Flink's names where Flink has the option.


LOG_LEVELS = ("debug", "info", "warn", "error")

LOG_LEVEL = _option(
    "env.log.level",
    one_of(*LOG_LEVELS),
    "info",
    "What of the logging of user code reaches the log of the job: records of this level and above. In workers it is the level of "
    "the root logger; in this process (execution.target local) the levels of the program hold, unless this is set.",
)
LOG_DIR = _option(
    "env.log.dir",
    text,
    "",
    "A folder of the driver's machine for the logs of jobs: `<id of the job>.log`, a JSON object per line. Empty: in the user's "
    "cache folder for jobs on Spark, none for a job in this process.",
)
LOG_MAX = _option(
    "env.log.max",
    at_least(0),
    10,
    "How many older files of the log of a job are kept.",
)
LOG_FILE_SIZE = _option(
    "env.log.file-size",
    at_least(1024, memory_bytes),
    10 * 1024 * 1024,
    "Size (bytes) from which on the log of a job goes on in a new file.",
)
LOG_RATE = _option(
    "env.log.rate-limit",
    at_least(0),
    200,
    "How many log records a second a task may write in the long run; 0: any number. What is more is dropped and counted.",
)
SYSTEM_OUT = _option(
    "taskmanager.system-out.mode",
    one_of("default", "log", "ignore"),
    "default",
    "What becomes of what user code prints in workers. DEFAULT: it goes to the executor's own output; LOG: to the log of the "
    "job, line by line; IGNORE: nowhere. In this process (execution.target local) it is printed.",
)


# ---- The options of the REST server and its dashboard, and of what is encrypted; Flink's names where Flink has the
# option.


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
    "'funken[rest]'); a job in this process (execution.target local) has one if a port is set.",
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
    "EXCEPTION_HISTORY_SIZE",
    "JOB_STORE_CAPACITY",
    "LATENCY_GRANULARITY",
    "LATENCY_HISTORY",
    "LATENCY_INTERVAL",
    "LOG_DIR",
    "LOG_FILE_SIZE",
    "LOG_LEVEL",
    "LOG_LEVELS",
    "LOG_MAX",
    "LOG_RATE",
    "METRIC_REPORTERS",
    "NOTEBOOK_INTERVAL",
    "REPORTER_CLASS",
    "REPORTER_FACTORY",
    "REPORTER_INTERVAL",
    "REPORTER_OPTION",
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
    "SYSTEM_OUT",
]
