"""What is read from a session: who repeats tasks, and where the driver listens."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from funken.spark.control import ControlServer
from funken.spark.session import control_host, repeats_tasks, settings_of


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
