"""Which threads get which scheduling policy, and that a job's have it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from funken import Configuration, StreamExecutionEnvironment
from funken.spark.scheduling import schedule

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's policies")


def in_a_process_of_its_own(program):
    text = (
        "import os, sys, threading\nfrom pathlib import Path\nfrom funken.spark.scheduling import schedule\n" + program
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


THREADS = """
def policies():
    return [os.sched_getscheduler(int(name)) for name in os.listdir("/proc/self/task")]
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


@linux
def test_all_threads_of_a_process_change():
    said = in_a_process_of_its_own(
        THREADS + "schedule('batch')\nprint(*policies())\nschedule('normal')\nprint(*policies())"
    )

    assert said == [str(os.SCHED_BATCH)] * 2 + [str(os.SCHED_OTHER)] * 2


@linux
def test_another_policy_is_kept():
    said = in_a_process_of_its_own(
        THREADS + "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nschedule('batch')\nprint(*policies())"
    )

    assert sorted(said) == sorted([str(os.SCHED_IDLE), str(os.SCHED_BATCH)])


def threads(proc, process, name, parent, ids):
    folder = proc / str(process)
    (folder / "task").mkdir(parents=True)
    for thread in ids:
        (folder / "task" / str(thread)).mkdir()
    (folder / "stat").write_text(f"{process} ({name}) S {parent} 1 1")


@pytest.fixture
def changed(monkeypatch):
    """The threads that were given another policy; those above 900 have ended, or are somebody else's."""
    found = []

    def change(thread, policy, parameters):
        if thread > 900:
            raise ProcessLookupError if thread < 950 else PermissionError
        found.append(thread)

    monkeypatch.setattr(os, "sched_getscheduler", lambda thread: os.SCHED_OTHER)
    monkeypatch.setattr(os, "sched_setscheduler", change)
    return found


@linux
def test_the_jvm_is_found_above_the_daemon(tmp_path, changed):
    threads(tmp_path, os.getpid(), "python", os.getppid(), [1])
    threads(tmp_path, os.getppid(), "a (daemon) of", 77, [2, 901])
    threads(tmp_path, 77, "java", 78, [3, 4])
    threads(tmp_path, 78, "bash", 1, [5])

    schedule("batch", tmp_path)

    assert sorted(changed) == [1, 2, 3, 4]


@linux
def test_without_a_jvm_only_this_process_changes(tmp_path, changed):
    threads(tmp_path, os.getpid(), "python", os.getppid(), [1])
    threads(tmp_path, os.getppid(), "pytest", 77, [2])

    schedule("batch", tmp_path)

    assert changed == [1]


@linux
def test_what_is_not_allowed_is_left_alone(tmp_path, changed):
    threads(tmp_path, os.getpid(), "python", os.getppid(), [951, 952])

    schedule("batch", tmp_path)

    assert changed == []


def test_no_proc(tmp_path):
    schedule("batch", tmp_path)


@linux
@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("target", ["batch", "continuous"])
def test_a_jobs_threads_have_the_policy_of_its_option(target):
    found = {}
    for policy in ("batch", "normal"):
        conf = Configuration({"execution.target": target, "execution.cpu-scheduling": policy, "parallelism.default": 1})

        def policies(_):
            def above(process):
                return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])

            jvm = above(os.getppid())
            name = Path(f"/proc/{jvm}/comm").read_text().strip()
            return os.sched_getscheduler(0), name, os.sched_getscheduler(jvm)

        env = StreamExecutionEnvironment.get_execution_environment(conf)
        with env.from_collection([1]).map(policies).execute_and_collect() as records:
            found[policy] = list(records)

    assert found == {
        "batch": [(os.SCHED_BATCH, "java", os.SCHED_BATCH)],
        "normal": [(os.SCHED_OTHER, "java", os.SCHED_OTHER)],
    }


def test_a_policy_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="execution.cpu-scheduling"):
        Configuration({"execution.cpu-scheduling": "idle"})
