"""The process that has a warm session: ``funken up`` starts it, ``funken down`` ends it, or an hour without a program.

It starts Spark as a program would, runs a job of two stages once, so that what a job needs is loaded, and then only lends the
JVM to one program at a time. When a program gives it back, whatever of it still runs in the JVM is cancelled; a session that a
program has stopped ends this process, and so does one that cannot cancel what is left.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

from pyspark import SparkContext

from funken import config
from funken.api.environment import StreamExecutionEnvironment
from funken.config import Configuration
from funken.connectors.datagen import DataGeneratorSource
from funken.runtime.driver.job import Job
from funken.spark import jvm, session
from funken.spark.submit import ContinuousRunner
from funken.spark.warm.client import accepted, folder, listen, remove, send_line
from funken.timing.clock import SystemClock
from funken.timing.watermarks import WatermarkStrategy

_LOOK_SECONDS = 1.0
_END_SECONDS = 20.0
_CANCEL_SECONDS = 20.0
_WARM_UP = {"execution.target": "continuous", "parallelism.default": 2, "execution.start-timeout": "60 s"}


def warm_up_job(configuration: Configuration) -> Job:
    """Return a job as short as possible, for ``ContinuousRunner``: no client of it is shown to anybody."""
    environment = StreamExecutionEnvironment.get_execution_environment(
        configuration.copy().add_all(Configuration(_WARM_UP))
    )
    numbers = environment.from_source(DataGeneratorSource(int, count=10), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda number: number).sum().for_each(repr)
    return environment.job("warm up")


class Resident:
    """Lends the session of this process."""

    def __init__(self, listener: socket.socket, token: str, idle_seconds: float) -> None:
        self._listener = listener
        self._token = token
        self._idle = idle_seconds
        self._leased: socket.socket | None = None
        self._since = SystemClock().monotonic()
        self._stuck = False

    def serve(self) -> None:
        """Serve clients until one asks to end, nobody has come for long, or the session has ended."""
        while not self._is_over():
            watched = [self._listener, *([] if self._leased is None else [self._leased])]
            readable, _, _ = select.select(watched, [], [], _LOOK_SECONDS)
            if self._leased in readable:
                self._give_back()
            if self._listener in readable:
                connection, _ = self._listener.accept()
                if not self._answer(connection):
                    return

    def _is_over(self) -> bool:
        idle = self._leased is None and 0 < self._idle < SystemClock().monotonic() - self._since
        return idle or self._stuck or not jvm.lives(SparkContext._active_spark_context)

    def _answer(self, connection: socket.socket) -> bool:
        """Answer a client; returns whether to go on."""
        request = accepted(connection, self._token)
        content: dict[str, Any] = {"pid": os.getpid(), "leased": self._leased is not None}
        wanted = None if request is None else request.get("request")
        try:
            if wanted == "lease" and self._leased is None:
                gateway: Any = SparkContext._gateway
                parameters = gateway.gateway_parameters
                send_line(connection, content | {"port": parameters.port, "secret": parameters.auth_token})
                self._leased = connection
                return True
            if wanted is not None:
                send_line(connection, content)
        except OSError:
            pass  # it has gone
        connection.close()
        return wanted != "down"

    def _give_back(self) -> None:
        """The program has ended, or said more than it should."""
        assert self._leased is not None
        self._leased.close()
        self._leased = None
        self._since = SystemClock().monotonic()
        cancelling = threading.Thread(target=_cancel_all, name="funken-cancel", daemon=True)
        cancelling.start()
        cancelling.join(_CANCEL_SECONDS)
        self._stuck = cancelling.is_alive()


def _cancel_all() -> None:
    context: Any = SparkContext._active_spark_context
    if jvm.lives(context):
        context.cancelAllJobs()


def end_jvm() -> None:
    """End the JVM, which may write its archive of classes first."""
    process: Any = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_END_SECONDS)  # whoever has ended the session finds no JVM


def main() -> None:
    """Start Spark, and lend it; the arguments are options, as JSON, and the longest time without a program (s)."""
    configuration = Configuration(json.loads(sys.argv[1])).set(config.WARM_SESSION, "false")
    place = folder()
    assert place is not None
    os.chdir(place)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    launch = session.SessionLaunch.of(configuration, 0)
    # A worker that is used again has the modules of the program before: here each task gets a new one.
    launch.start(lambda: True, **{"spark.python.worker.reuse": "false"})
    ContinuousRunner().run(warm_up_job(configuration))
    listener, token = listen(place, launch.name)
    try:
        Resident(listener, token, float(sys.argv[2])).serve()
    finally:
        listener.close()
        end_jvm()
        remove(place, launch.name)  # at last: whoever ends this process waits for it


if __name__ == "__main__":
    main()
