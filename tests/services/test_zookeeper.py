"""Leader election over a real ZooKeeper: one leader, in rising terms; a takeover counts every record once."""

import os
import signal
import threading
import time
from collections import Counter

import pytest

from funken.errors import EnvironmentNotReady
from funken.leaderelection.zookeeper import ZooKeeperElection
from tests.leaderelection.test_takeover import BOUND, EXPECTED, Drivers, checkpoints, until
from tests.support.commit_journal import commits
from tests.support.cuttable import CuttableProxy
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


@pytest.fixture
def networks(zookeeper):
    """Two ways to ZooKeeper, each of which can be cut."""
    made = CuttableProxy(zookeeper.address), CuttableProxy(zookeeper.address)
    yield made
    for each in made:
        each.close()


def test_a_leader_that_is_cut_off_gives_up_before_another_is_granted(networks):
    moments = []
    one, other = (ZooKeeperElection(network.address, "/funken/test/partition", 4.0) for network in networks)
    one.start(lambda reason: moments.append(("lost", time.monotonic())))
    assert one.granted.wait(BOUND)
    other.start(lambda reason: moments.append(("lost too", time.monotonic())))
    time.sleep(1.0)  # both have heard of ZooKeeper, and the leader's questions are answered
    networks[0].cut()
    cut = time.monotonic()
    assert other.granted.wait(BOUND)
    granted = time.monotonic()
    networks[0].heal()
    other.close()
    one.close()

    assert [what for what, _ in moments] == ["lost"]
    assert cut < moments[0][1] < granted


def test_a_candidate_that_is_cut_off_before_it_leads_says_so(networks):
    networks[0].cut()
    election = ZooKeeperElection(networks[0].address, "/funken/test/never", 4.0, connect=1.0)
    with pytest.raises(EnvironmentNotReady, match="no ZooKeeper at .* has answered within 1 s"):
        election.start(pytest.fail)


@pytest.mark.parametrize("heals", [True, False])
def test_of_two_leaders_that_a_network_has_parted_one_commits(networks, tmp_path, heals):
    options = {
        "high-availability.type": "zookeeper",
        "high-availability.zookeeper.client.session-timeout": "4 s",
        "high-availability.zookeeper.path.root": f"/funken/partition-{heals}",
    }
    drivers = Drivers(tmp_path, *(f"{key}={value}" for key, value in options.items()))
    quorum = "high-availability.zookeeper.quorum"
    try:
        leader = drivers.start(f"{quorum}={networks[0].address}")
        drivers.leader([leader])
        standby = drivers.start(f"{quorum}={networks[1].address}")
        until(lambda: checkpoints(tmp_path), drivers)
        until(lambda: "is a candidate" in standby.log.read_text(), drivers)
        assert leader.poll() is None, drivers.logs()
        networks[0].cut()
        drivers.leader([standby])
        if heals:
            networks[0].heal()
        assert leader.wait(BOUND) != 0, drivers.logs()
        assert "is not run by this driver any more" in leader.log.read_text(), drivers.logs()
        assert standby.wait(BOUND) == 0, drivers.logs()
    finally:
        drivers.close()

    assert written(tmp_path) == EXPECTED, drivers.logs()
    made = commits(tmp_path / "journal")
    turn = next(index for index, each in enumerate(made) if each.pid == standby.pid)
    assert {each.pid for each in made[:turn]} == {leader.pid}
    assert {each.pid for each in made[turn:]} == {standby.pid}, "the old leader has committed beside the new one"
    once = {each.checkpoint: each.lines for each in made}
    assert all(once[each.checkpoint] == each.lines for each in made), "a checkpoint was committed with two contents"
    assert Counter(line for lines in once.values() for line in lines) == EXPECTED
