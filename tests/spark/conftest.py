"""A watch over what jobs leave behind: no query, no Spark job, no worker, no thread, no folder."""

import tempfile
import threading
import time
from pathlib import Path

import pytest

from funken.runtime.driver.master import JobMaster
from funken.runtime.messages import TaskOpening
from funken.spark import submit
from funken.spark.frames import session

BOUND = 60  # seconds; what is waited for takes one or two, but the machine may be busy


def wait_until(condition, what, seconds=BOUND):
    """Wait for something that tells nobody when it happens, such as a file in a worker."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"{what}: not within {seconds} s"
        threading.Event().wait(0.02)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(scope="session", name="alive")
def alive_fixture():
    """Tell whether a process runs; one that only waits for its parent to notice its end does not."""
    return alive


class Watch:
    """What the jobs of a test are made of, as their tasks report it."""

    def __init__(self, folder):
        self.folder = folder
        self.pids = {}
        self.opening = threading.Event()

    def saw(self, event):
        if isinstance(event, TaskOpening):
            self.pids[event.task] = event.pid
            self.opening.set()

    def wait_for_tasks(self, count):
        wait_until(lambda: len(self.pids) >= count, f"{count} tasks open")

    def workers(self, stage):
        def mine():
            return [pid for task, pid in list(self.pids.items()) if task.stage == stage]

        wait_until(mine, f"a task of stage {stage} opens")
        return mine()

    def nothing_is_left(self, mode):
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        state = context._jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get().sharedState()
        assert state.activeStreamingQueries().isEmpty()
        wait_until(lambda: not context.statusTracker().getActiveJobsIds(), "Spark jobs end")
        wait_until(lambda: not [t.name for t in threading.enumerate() if t.name.startswith("funken-")], "threads end")
        left = [path.name for path in self.folder.iterdir()]
        assert [name for name in left if not name.startswith("funken-spark-")] == []  # which is the session's
        if mode == "continuous":
            wait_until(lambda: not [pid for pid in self.pids.values() if alive(pid)], "workers end", 10)


@pytest.fixture
def watch(tmp_path_factory, monkeypatch):
    """Record the tasks of every job, and keep temporary folders in a place of the test's own."""
    session()  # its folder of sockets is not the test's own, and paths of sockets are short
    found = Watch(tmp_path_factory.mktemp("temporary"))
    monkeypatch.setattr(tempfile, "tempdir", str(found.folder))
    handle = JobMaster.handle

    def recording(self, event):
        found.saw(event)
        return handle(self, event)

    monkeypatch.setattr(JobMaster, "handle", recording)
    yield found
    submit._stop_running()  # a test that failed must not spoil the others


@pytest.fixture
def blocked(tmp_path):
    """A file where user code writes its process id when it is about to block, and ways to wait for it."""
    return Blocked(tmp_path / "blocked")


class Blocked:
    def __init__(self, path):
        self.path = path

    def wait(self):
        wait_until(lambda: self.path.exists() and self.path.read_text(), "user code is reached")

    def worker_is_gone(self):
        """In batch Spark keeps workers for the next job, but not those whose code did not come back."""
        wait_until(lambda: not alive(int(self.path.read_text())), "the worker ends", 10)
