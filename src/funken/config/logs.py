"""The options about the logs of a job's tasks; Flink's names where Flink has the option."""

from __future__ import annotations

from funken.config.options import _option
from funken.config.parsing import at_least, one_of, text
from funken.config.values import memory_bytes

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

__all__ = ["LOG_DIR", "LOG_FILE_SIZE", "LOG_LEVEL", "LOG_LEVELS", "LOG_MAX", "LOG_RATE", "SYSTEM_OUT"]
