"""Workers of a batch job in threads of this process, with their real connections: everything but Spark."""

import sys
import threading

from funken.plan.nodes import program_bytes
from funken.runtime.settings import HeartbeatSettings
from funken.spark.barrier import BarrierDeployment, BarrierWorker
from funken.spark.control.server import ControlServer

BOUND = 60  # seconds

MEETING = threading.Barrier(1)
"""Where functions of different workers wait for each other."""

CALLS = {}
"""What functions call that has to stay in this process."""


def run_stage(configuration, session, name, width, program, master):
    """Stand in for ``funken.spark.barrier.run_stage``."""
    server = ControlServer(master)
    deployment = BarrierDeployment(
        program_bytes(program), server.address, server.credentials, (), HeartbeatSettings(), 20_000
    )
    threads = [threading.Thread(target=_work, args=(deployment, index), daemon=True) for index in range(width)]
    for thread in threads:
        thread.start()
    ended = master.ended.wait(BOUND)
    server.close()
    for thread in threads:
        thread.join(BOUND)
        assert not thread.is_alive(), "a worker does not end"
    assert ended, "the job does not end"
    if master.error is not None:
        raise master.error


def _work(deployment, index):
    try:
        BarrierWorker(deployment, index).run()
    except BaseException as error:  # noqa: BLE001 - reported to the driver; Spark would log it
        sys.stderr.write(f"worker {index}: {type(error).__name__}\n")
