"""What is read from a session: who repeats tasks, where the driver listens, and whether it has ended; no JVM runs here."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from funken.config import Configuration
from funken.errors import (
    JobExecutionError,
    OperatorFailed,
    SessionLost,
    SessionNotSuitable,
    SessionStopped,
    SparkNotStarted,
    TooFewTaskSlots,
)
from funken.io import temporary
from funken.spark import jvm
from funken.spark import session as sessions
from funken.spark.control.server import ControlServer
from funken.spark.session import control_host, living, losing, repeats_tasks, session_for, settings_of


def session(master, **settings):
    conf = {name.replace("_", "."): value for name, value in settings.items()}
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, getConf=lambda: conf))


@pytest.mark.parametrize(
    ("master", "settings", "repeats"),
    [
        ("local", {}, False),
        ("local[*]", {}, False),
        ("local[8]", {"spark_task_maxFailures": "4"}, False),
        ("local[8,1]", {}, False),
        ("local[8, 3]", {}, True),
        ("local-cluster[2,4,1024]", {}, True),
        ("spark://host:7077", {}, True),
        ("yarn", {"spark_task_maxFailures": "1"}, False),
    ],
)
def test_spark_repeats_tasks_on_clusters_and_where_it_is_told_to(master, settings, repeats):
    assert repeats_tasks(session(master, **settings)) is repeats


@pytest.mark.parametrize("long", [False, True])
def test_the_folder_of_the_workers_sockets_is_private_short_and_goes_with_the_process(tmp_path, long):
    place = tmp_path / ("x" * 60) if long else tmp_path
    place.mkdir(exist_ok=True)
    program = (
        "import os, stat; from funken.spark.session import _socket_folder as f; "
        "assert f() == f(); print(f(), oct(stat.S_IMODE(os.stat(f()).st_mode)), len(f()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TMPDIR": str(place)},
        text=True,
        capture_output=True,
        check=True,
    )
    folder, mode, length = done.stdout.split()
    assert mode == "0o700" and int(length) <= 60
    assert not os.path.exists(folder)


def test_the_driver_listens_on_loopback_or_where_spark_does():
    behind = {"spark_driver_host": "gateway", "spark_driver_bindAddress": "10.0.0.2"}
    assert control_host(session("local[4]", **behind)) == ("127.0.0.1", "127.0.0.1")
    assert control_host(session("yarn", **behind)) == ("gateway", "10.0.0.2")
    assert control_host(session("yarn", spark_driver_host="driver")) == ("driver", "driver")


def test_tasks_are_told_another_address_than_the_one_that_is_listened_on():
    server = ControlServer(None, "gateway", "127.0.0.1")
    server.close()

    assert server.address[0] == "gateway"
    assert server.address[1] > 0


def test_a_setting_that_is_refused_leaves_the_others_as_they_were():
    class Conf(dict):
        def unset(self, key):
            self.pop(key, None)

        def set(self, key, value):
            if key.endswith("maxBytesPerBatch"):
                raise ValueError(key)
            self[key] = value

    conf = Conf({"spark.sql.adaptive.enabled": "true"})

    with pytest.raises(ValueError, match="maxBytesPerBatch"), settings_of(SimpleNamespace(conf=conf)):
        pass

    assert conf == {"spark.sql.adaptive.enabled": "true"}


# ---- a session that has ended


class Context:
    """What Funken asks of a context; ``stopped`` may be what the JVM raises."""

    def __init__(self, stopped):
        self.stopped = stopped
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=self.is_stopped), _gateway_client=None)

    def is_stopped(self):
        if isinstance(self.stopped, Exception):
            raise self.stopped
        return self.stopped


def session_with(stopped, own=False):
    context = Context(stopped)
    if own:
        jvm._own[context] = []
    return SimpleNamespace(sparkContext=context)


DEAD = [True, ConnectionRefusedError(111, "Connection refused"), jvm.GONE[0]("no answer")]


def test_a_session_that_lives_is_used():
    session = session_with(stopped=False)

    assert living(session) is session
    assert living(None) is None


@pytest.mark.parametrize("stopped", DEAD)
def test_an_own_session_that_has_ended_is_replaced(stopped):
    session = session_with(stopped, own=True)

    assert living(session) is None
    assert session.sparkContext._jsc is None


@pytest.mark.parametrize("stopped", DEAD)
def test_a_session_of_the_user_that_has_ended_is_an_error(stopped):
    with pytest.raises(SessionStopped, match="has ended: it was stopped, or its JVM was killed .* Build a new one"):
        living(session_with(stopped))


@pytest.mark.parametrize("error", [ConnectionRefusedError("111"), KeyError("o12"), JobExecutionError("it ended early")])
def test_whatever_is_raised_when_a_session_has_ended_says_so(error):
    with (
        pytest.raises(
            SessionLost, match="ended under the job. .*What failed first: .*(111|o12|it ended early)"
        ) as raised,
        losing(session_with(stopped=True, own=True)),
    ):
        raise error
    assert raised.value.__cause__ is error

    with pytest.raises(SessionStopped, match="Funken starts no other"), losing(session_with(stopped=True)):
        raise error
    with pytest.raises(SessionStopped), losing(session_with(stopped=True, own=True), replaceable=False):
        raise error


@pytest.mark.parametrize("error", [ConnectionRefusedError("a sink"), OperatorFailed("boom")])
def test_what_is_raised_while_the_session_lives_stays_what_it_is(error):
    with pytest.raises(type(error)) as raised, losing(session_with(stopped=False)):
        raise error
    assert raised.value is error


def test_an_error_that_says_what_to_do_stays_what_it_is():
    with pytest.raises(TooFewTaskSlots), losing(session_with(stopped=True)):
        raise TooFewTaskSlots("2")


def test_a_spark_that_does_not_start_is_an_error_of_the_environment(monkeypatch):
    def start(*arguments):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(sessions, "ensure_java", lambda: "/nowhere")
    monkeypatch.setattr(sessions, "existing", lambda: None)
    monkeypatch.setattr(jvm, "start", start)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "python3")

    with pytest.raises(SparkNotStarted, match=r"Spark \(master local\[64\]\) did not start: ConnectionRefusedError"):
        session_for(Configuration(), None, 2)


def test_a_master_of_no_kind_is_refused_before_spark_starts(monkeypatch):
    monkeypatch.setattr(sessions, "ensure_java", lambda: "/nowhere")
    monkeypatch.setattr(sessions, "existing", lambda: None)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "python3")

    with pytest.raises(SparkNotStarted, match=r"spark.master 'locl\[2\]' names no Spark. Write local\[4\]"):
        session_for(Configuration({"spark.master": "locl[2]"}), None, 2)


@pytest.mark.parametrize("given", ["local[2]", SimpleNamespace])
def test_what_is_no_session_is_refused(given):
    with pytest.raises(SessionNotSuitable, match="is no SparkSession. Give SparkSession.builder.getOrCreate()"):
        living(given)


def test_a_start_that_fails_leaves_no_folder(monkeypatch, tmp_path):
    class Builder:
        def config(self, key, value):
            return self

        def getOrCreate(self):
            assert len(list(tmp_path.iterdir())) == 1
            raise RuntimeError("JAVA_GATEWAY_EXITED")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(jvm, "_LONGEST_FOLDER", 1000)
    monkeypatch.setattr(jvm, "_own", {})
    monkeypatch.setattr(jvm.SparkContext, "_gateway", None)

    with pytest.raises(RuntimeError, match="JAVA_GATEWAY_EXITED"):
        jvm.start(Builder(), {}, "")

    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_jvm_is_private_and_its_path_short_enough_for_sockets(monkeypatch, tmp_path):
    long = tmp_path / ("x" * 70)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))

    folder = temporary.make_temporary_folder("spark", jvm._LONGEST_FOLDER)

    assert len(folder) <= 64
    assert os.stat(folder).st_mode & 0o077 == 0
    assert list(long.iterdir()) == []
    temporary.remove_temporary_folder(folder)
    assert not os.path.exists(folder)


def test_a_folder_of_installed_packages_does_not_come_before_the_standard_library(monkeypatch):
    source = Path(sessions.__file__).resolve().parents[2]
    monkeypatch.setattr(sessions.site, "getsitepackages", lambda: ["/nowhere"])
    assert sessions._import_path() == str(source)

    monkeypatch.setattr(sessions.site, "getsitepackages", lambda: ["/nowhere", str(source)])
    assert sessions._import_path() is None


def test_on_yarn_whose_folders_have_long_names_workers_are_reached_by_tcp(monkeypatch):
    def launch(**submitted):
        monkeypatch.setattr(jvm, "submitted", lambda: submitted)
        return sessions.SessionLaunch.of(Configuration({"spark.master": "yarn"}), 0).settings

    sockets = "spark.python.unix.domain.socket"
    assert launch()[f"{sockets}.enabled"] == "false"
    assert launch(**{f"{sockets}.dir": "/run/x"})[f"{sockets}.enabled"] == "true"


def test_what_spark_submit_says_counts_but_for_what_operators_need(monkeypatch):
    submitted = {
        "spark.master": "spark://host:7077",
        "spark.pyspark.python": "/opt/python",
        "spark.buffer.size": "65536",
    }
    monkeypatch.setattr(jvm, "submitted", lambda: submitted)
    launch = sessions.SessionLaunch.of(Configuration(), 0)
    assert launch.master == "spark://host:7077"
    assert "spark.pyspark.python" not in launch.settings, "what was submitted stays as it is"
    assert launch.settings["spark.buffer.size"] == "64"
    assert sessions.SessionLaunch.of(Configuration({"spark.master": "local[3]"}), 0).master == "local[3]"


def test_a_cluster_s_slots_are_waited_for_and_those_of_this_machine_are_not(monkeypatch):
    found = iter([2, 3, 6])
    monkeypatch.setattr(sessions, "slots_of", lambda spark: next(found))
    monkeypatch.setattr(sessions, "_SLOTS_SECONDS", 0.001)
    assert sessions._slots_in_time(session("spark://host:7077"), 5, Configuration(), lambda: True) == 6
    monkeypatch.setattr(sessions, "slots_of", lambda spark: 2)
    for master, options in (("local[2]", {}), ("spark://host:7077", {"slot.request.timeout": 0})):
        assert sessions._slots_in_time(session(master), 5, Configuration(options), lambda: True) == 2
    assert sessions._slots_in_time(session("yarn"), 5, Configuration(), lambda: False) == 2
