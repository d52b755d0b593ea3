"""Leader election over a real ZooKeeper: one leader, in rising terms; a takeover counts every record once."""

import os
import signal
import threading

import pytest

from funken.leaderelection.zookeeper import ZooKeeperElection
from tests.leaderelection.test_takeover import BOUND, EXPECTED, Drivers, checkpoints, until
from tests.support.files import written
from tests.support.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.services
pytest.importorskip("kazoo", reason="install it with: pip install 'funken[zookeeper]'")


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory):
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    try:
        yield server.start()
    finally:
        server.stop()


def test_the_oldest_candidate_leads_and_the_next_has_a_higher_term(zookeeper):
    one, other = (ZooKeeperElection(zookeeper.address, "/funken/test/job", 4.0) for _ in range(2))
    lost = []
    one.start(lost.append)
    assert one.granted.wait(BOUND)
    other.start(lost.append)
    assert not other.granted.is_set()
    one.close()
    assert other.granted.wait(BOUND)
    assert other.term > one.term
    other.close()
    assert lost == []


def test_a_leader_that_does_not_reach_zookeeper_gives_up(zookeeper):
    election = ZooKeeperElection(zookeeper.address, "/funken/test/silent", 4.0)
    lost, told = [], threading.Event()
    election.start(lambda reason: (lost.append(reason), told.set()))
    assert election.granted.wait(BOUND)
    zookeeper.pause()
    try:
        assert told.wait(BOUND)
    finally:
        zookeeper.resume()
    assert "did not answer" in lost[0] or "expired" in lost[0]
    election.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_standby_takes_over(zookeeper, tmp_path, number):
    options = {
        "high-availability.type": "zookeeper",
        "high-availability.zookeeper.quorum": zookeeper.address,
        "high-availability.zookeeper.client.session-timeout": "4 s",
        "high-availability.zookeeper.path.root": f"/funken/{number.name}",
    }
    drivers = Drivers(tmp_path, *(f"{key}={value}" for key, value in options.items()))
    try:
        leader = drivers.start()
        drivers.leader([leader])
        standby = drivers.start()
        until(lambda: checkpoints(tmp_path), drivers)
        os.kill(leader.pid, number)
        drivers.leader([standby])
        if number == signal.SIGSTOP:
            os.kill(leader.pid, signal.SIGCONT)
            assert leader.wait(BOUND) != 0, drivers.logs()
        assert standby.wait(BOUND) == 0, drivers.logs()
        assert written(tmp_path) == EXPECTED, drivers.logs()
    finally:
        drivers.close()
