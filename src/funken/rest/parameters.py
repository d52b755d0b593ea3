"""The parameters of requests: each declared once, with the function that reads it and the schema for the OpenAPI document.

A value that does not fit raises ``ValueError`` with what is allowed; the request is then rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from funken.dataclass import dataclass
from funken.rest.views.metrics import AGGREGATIONS

_MAX_NUMBER = 2**31 - 1
_MAX_SUBTASKS = 32_768
_MAX_PARALLELISM = 32_768
_MAX_RECORDS = 2_000
_HEX = r"^[0-9a-f]{32}$"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a path, a query or a body."""

    name: str
    doc: str
    schema: dict[str, Any]
    read: Callable[[Any], Any]
    required: bool = False


def _identifier(value: str) -> str:
    if not re.fullmatch(_HEX[1:-1], value):
        raise ValueError("32 hexadecimal digits are needed")
    return value


def _whole(least: int, most: int, needed: str) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", value) or not least <= int(value) <= most:
            raise ValueError(f"{needed} is needed")
        return int(value)

    return read


_number = _whole(0, _MAX_NUMBER, f"a whole number from 0 to {_MAX_NUMBER}")
_count = _whole(1, _MAX_NUMBER, f"a whole number from 1 to {_MAX_NUMBER}")
_checkpoint = _whole(0, 10**18 - 1, "the number of a checkpoint")
_time = _whole(0, 10**15 - 1, "a time in ms since 1970")
_parallelism = _whole(1, _MAX_PARALLELISM, f"a whole number from 1 to {_MAX_PARALLELISM}")
_limit = _whole(1, _MAX_RECORDS, f"a whole number from 1 to {_MAX_RECORDS}")


def _names(value: str) -> list[str]:
    return [name for name in value.split(",") if name]


def _aggregations(value: str) -> list[str]:
    found = _names(value.lower())
    if set(found) - set(AGGREGATIONS):
        raise ValueError(f"some of {', '.join(AGGREGATIONS)} are needed, with commas between them")
    return found


def _subtasks(value: str) -> list[int]:
    """Read ``"0,2,4-7"``."""
    found: set[int] = set()
    for part in _names(value):
        first, _, last = part.partition("-")
        begin, end = _number(first), _number(last or first)
        if end >= _MAX_SUBTASKS or begin > end:
            raise ValueError(f"subtasks from 0 to {_MAX_SUBTASKS - 1} are needed, as '0,2,4-7'")
        found.update(range(begin, end + 1))
    return sorted(found)


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"one of {', '.join(allowed)} is needed")
        return value

    return read


def _first_of(*allowed: str) -> Callable[[Any], str]:
    """Return a reader of Flink's choices, of which the first one is all that there is here."""

    def read(value: Any) -> str:
        if value is not None:
            _one_of(*allowed)(value)
        return allowed[0]

    return read


def _needed_path(value: Any) -> str:
    found = _path_text(value)
    if found is None:
        raise ValueError("a path or URI is needed")
    return found


def _bounds(value: Any) -> int:
    """Read the upper bound of ``{"parallelism": {"lowerBound": 1, "upperBound": 4}}``."""
    try:
        lower, upper = value["parallelism"].get("lowerBound", 1), value["parallelism"]["upperBound"]
    except (TypeError, KeyError, AttributeError):
        raise ValueError('{"parallelism": {"lowerBound": 1, "upperBound": N}} is needed') from None
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in (lower, upper))
    if not whole or not 1 <= lower <= upper <= _MAX_PARALLELISM:
        raise ValueError(f"bounds from 1 to {_MAX_PARALLELISM} are needed, the lower one first")
    return int(upper)


def _path_text(value: Any) -> str | None:
    """Read a folder or URI of a body; ``null`` is as good as nothing."""
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or any(ord(each) < 32 for each in value):
        raise ValueError("a path or URI is needed")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("a path or URI is needed") from None
    return value


def _flag(value: Any) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ValueError("true or false is needed")
    return value


def _trigger(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("32 hexadecimal digits are needed")
    return _identifier(value)


_TEXT = {"type": "string"}
_NAT = {"type": "integer", "minimum": 0, "maximum": _MAX_NUMBER}
_TIME = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}
_ID = {"type": "string", "pattern": _HEX}
_LIST = {"type": "string", "description": "names with commas between them"}
_PATH = {"type": ["string", "null"], "pattern": r"^[!-~]([ -~]*[!-~])?$"}
_BOOL = {"type": ["boolean", "null"]}
_FORMAT = {"enum": ["CANONICAL", "NATIVE", None]}

PATH = {
    each.name: each
    for each in (
        Parameter(
            "jobid", "The id of the job.", {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"}, str
        ),
        Parameter("vertexid", "The id of the vertex.", _ID, _identifier),
        Parameter("subtaskindex", "The number of the subtask, from 0.", _NAT, _number),
        Parameter("attempt", "The number of the attempt, from 0.", _NAT, _number),
        Parameter("checkpointid", "The number of the checkpoint.", _NAT, _checkpoint),
        Parameter("operatoruid", "The stable id of the operator.", _TEXT, str),
        Parameter("jarid", "The id of a jar.", _TEXT, str),
        Parameter("datasetid", "The id of a data set.", _ID, _identifier),
        Parameter("applicationid", "The id of the application, as /applications/overview has it.", _ID, _identifier),
        Parameter("rescaleuuid", "The id of a rescale.", _TEXT, str),
        Parameter("logname", "The name of a log, as the list has it.", _TEXT, str),
        Parameter("taskmanagerid", "The id of the machine, as /taskmanagers has it.", _ID, _identifier),
        Parameter("triggerid", "The id that the request was answered with that began the operation.", _ID, _identifier),
    )
}

GET = Parameter("get", "The metrics whose values are wanted; without it, their names are listed.", _LIST, _names)
AGG = Parameter("agg", f"Some of {', '.join(AGGREGATIONS)}; all but skew if it is left out.", _LIST, _aggregations)
SUBTASKS = Parameter("subtasks", "Which subtasks: '0,2,4-7'; all if it is left out.", _TEXT, _subtasks)
JOBS = Parameter("jobs", "The ids of jobs, with commas between them; all if it is left out.", _LIST, _names)
TASK_MANAGERS = Parameter(
    "taskmanagers", "The ids of machines, with commas between them; all if it is left out.", _LIST, _names
)
GRAPH_TYPE = Parameter(
    "type", "FULL (the default), ON_CPU or OFF_CPU.", {"enum": ["FULL", "ON_CPU", "OFF_CPU"]},
    lambda value: _one_of("FULL", "ON_CPU", "OFF_CPU")(str(value).upper()),
)  # fmt: skip
GRAPH_SUBTASK = Parameter("subtaskindex", "Only this subtask.", _NAT, _number)
MAX_EXCEPTIONS = Parameter("maxExceptions", "How many exceptions are wanted (20).", _NAT | {"minimum": 1}, _count)
PARALLELISM = Parameter(
    "parallelism",
    "The new parallelism.",
    _NAT | {"minimum": 1, "maximum": _MAX_PARALLELISM},
    _parallelism,
    required=True,
)
AFTER = Parameter("after", "The number of the first log record; without it, the newest ones.", _NAT, _number)
LIMIT = Parameter(
    "limit", "How many log records at most (500).", _NAT | {"minimum": 1, "maximum": _MAX_RECORDS}, _limit
)
LEVEL = Parameter(
    "level", "Only records of this level and above.", {"enum": ["DEBUG", "INFO", "WARN", "ERROR"]},
    _one_of("DEBUG", "INFO", "WARN", "ERROR"),
)  # fmt: skip
VERTEX = Parameter("vertex", "Only records of the operators of this vertex.", _ID, _identifier)
VERTEX_OF_METRICS = Parameter("vertex", "Only metrics of this vertex.", _ID, _identifier)
GET_HISTORY = Parameter(
    "get", "The metrics whose values are wanted; without it, those of the dashboard's charts.", _LIST, _names
)
SINCE = Parameter("since", "Only what was measured after this time (ms since 1970).", _TIME, _time)
POINTS = Parameter(
    "points", "How many values of a series at most (180).", _NAT | {"minimum": 1, "maximum": _MAX_RECORDS}, _limit
)
SUBTASK = Parameter("subtask", "Only records of subtasks of this number.", _NAT, _number)
MODE = Parameter("mode", "cancel, which is the default.", {"enum": ["cancel"]}, _one_of("cancel"))

TARGET = Parameter(
    "target-directory", "The folder for the savepoint; without it, the configured one.", _PATH, _path_text
)
STOP_TARGET = Parameter("targetDirectory", TARGET.doc, _PATH, _path_text)
CANCEL_JOB = Parameter("cancel-job", "Whether the job ends with the savepoint.", _BOOL, _flag)
DRAIN = Parameter("drain", "Whether event time advances to its end first: windows and timers fire.", _BOOL, _flag)
TRIGGER = Parameter(
    "triggerId",
    "An id of the client's; repeated, the request begins nothing new.",
    {"type": ["string", "null"], "pattern": _HEX},
    _trigger,
)
FORMAT = Parameter(
    "formatType", "Flink's; all savepoints are of one format here.", _FORMAT, _first_of("CANONICAL", "NATIVE")
)
SAVEPOINT_PATH = Parameter("savepoint-path", "The savepoint to delete.", _PATH, _needed_path, required=True)
CHECKPOINT_TYPE = Parameter(
    "checkpointType", "Flink's; what a checkpoint has is the job's choice here.",
    {"enum": ["CONFIGURED", "FULL", "INCREMENTAL", None]}, _first_of("CONFIGURED", "FULL", "INCREMENTAL"),
)  # fmt: skip
REQUIREMENT = Parameter("", "By the id of a vertex: its parallelism.", {"type": "object"}, _bounds)
"""A field of a body whose names are ids of vertices."""
