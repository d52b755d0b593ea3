"""``make exactly-once``: from Kafka, on Spark, under random faults, to Kafka and others; a reader sees each result once.

usage: exactly_once [--rounds N] [--records N] [--rate R] [--faults N] [--seed N] [--targets kafka,postgresql,delta,files]
                    [--keep FOLDER]

A round is a job of its own over the same million records, whose rate is limited so that faults come while it works. In each
round some of the faults are drawn, one after another, each when the job has given output after the one before. The targets
(``targets.py``) take turns. Broker and database are of the bench's own, as in ``make test-services``. Nothing waits without a
bound. Prints a JSON line per round. ``--keep`` leaves logs, checkpoints and what was written in a new folder.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from job import PARTITIONS, PER_MS, WINDOW_MS, results  # noqa: E402 - beside this file
from targets import TARGETS, Target  # noqa: E402 - the same

from tests.support.kafka import KafkaBroker, jars  # noqa: E402 - not an installed package
from tests.support.postgres import PostgresServer, postgres_binaries  # noqa: E402 - the same

STEP_SECONDS, ROUND_SECONDS = 120.0, 420.0
NEVER_MS, SOON_MS = 3_600_000, 20_000
"""How long transactions may be open: in most rounds, and where one is to expire."""


class Over(Exception):
    """The job has ended by itself."""


class Round:
    """One job, over several drivers."""

    def __init__(
        self, folder: Path, broker: KafkaBroker, target: Target, source_topic: str, rate: float, chance: random.Random,
        faults: int,
    ) -> None:  # fmt: skip
        self.folder, self.broker, self.target, self.chance = folder, broker, target, chance
        self.faults = drawn(chance, target, faults)
        expires = SOON_MS if Round.transaction_expired in self.faults else NEVER_MS
        self.command = [sys.executable, "-W", "ignore", str(HERE / "job.py"), str(folder), broker.servers]
        self.command += [source_topic, str(rate), str(expires), *target.arguments]
        self.drivers = 0
        self.end = time.monotonic() + ROUND_SECONDS
        self.start_driver()

    def start_driver(self) -> None:
        """Start the next driver."""
        self.drivers += 1
        with self.log.open("wb") as log:
            environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
            self.driver = subprocess.Popen(self.command, stdout=log, stderr=log, env=environment)

    @property
    def log(self) -> Path:
        """What the driver of now prints."""
        return self.folder / f"driver-{self.drivers}.log"

    def beats(self) -> set[str]:
        """Return which attempts have given output."""
        return {path.name for path in self.folder.glob("beat-*")}

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something, but not after the end of the job, nor too long."""
        end = min(self.end, time.monotonic() + STEP_SECONDS)
        while not condition():
            if self.driver.poll() is not None:
                raise Over
            if time.monotonic() > end:
                raise SystemExit(
                    f"no {what} in time; see {self.folder}\n{self.log.read_text(errors='replace')[-3000:]}"
                )
            time.sleep(0.01)

    def driver_gone(self) -> bool:
        """Whether the driver was killed; one that has failed is reported."""
        code = self.driver.poll()
        if code is None:
            return False
        if code == 0:
            raise Over
        if code != -signal.SIGKILL:
            raise SystemExit(f"the job failed ({code}):\n{self.log.read_text(errors='replace')[-3000:]}")
        return True

    def wait_for_death(self, marker: Path) -> None:
        """Wait until the driver has killed itself, and start another one."""
        end = min(self.end, time.monotonic() + STEP_SECONDS)
        while not self.driver_gone():
            if time.monotonic() > end:
                raise SystemExit(f"{marker.name} was not heeded in time; see {self.folder}")
            time.sleep(0.01)
        self.start_driver()

    # ---- faults

    def ask(self, when: str) -> Path:
        """Leave a file that asks a process to die."""
        marker = self.folder / f"die-{when}-{self.chance.randrange(10**9)}"
        marker.touch()
        return marker

    def worker_killed(self) -> None:
        """SIGKILL to a worker."""
        alive = [
            int(path.name[4:]) for path in self.folder.glob("pid-*") if Path("/proc", path.name[4:], "task").exists()
        ]
        if alive:
            os.kill(self.chance.choice(alive), signal.SIGKILL)

    def worker_prepared(self) -> None:
        """A worker dies when its transaction is prepared and the checkpoint is not complete."""
        marker = self.ask("prepared")
        self.wait(lambda: not marker.exists(), "transaction that was prepared")

    def transaction_expired(self) -> None:
        """A worker stops, with its records acknowledged, until the broker has aborted its transaction."""
        marker = self.ask("expired")
        self.wait(lambda: not marker.exists(), "transaction that was to expire")

    def driver_killed(self) -> None:
        """SIGKILL to the driver, at any time."""
        self.driver.kill()
        self.driver.wait(30)
        self.driver_gone()
        self.start_driver()

    def driver_before_commit(self) -> None:
        """The driver dies when the checkpoint is complete, and nothing of it committed."""
        self.wait_for_death(self.ask("commit"))

    def driver_partly(self) -> None:
        """The driver dies when one of a checkpoint's transactions is committed, and the other is not."""
        self.wait_for_death(self.ask("partly"))

    def broker_killed(self) -> None:
        """SIGKILL to the broker, which is started again on what it has left."""
        self.broker.kill()
        self.broker.start()

    def server_before_commit(self) -> None:
        """The server that is written to is killed between prepare and commit."""
        self.ask("server")
        now = self.folder / "server-now"
        self.wait(now.exists, "checkpoint to be committed")
        self.target.server.kill()
        now.unlink()
        self.target.server.start()


FAULTS = (
    Round.worker_killed, Round.worker_prepared, Round.driver_killed, Round.driver_before_commit, Round.driver_partly,
    Round.broker_killed, Round.server_before_commit, Round.transaction_expired,
)  # fmt: skip
SERVERS = (Round.broker_killed, Round.server_before_commit)
QUICK = (Round.worker_killed, Round.worker_prepared)
"""What a job recovers from before transactions that are prepared expire, also where they expire soon."""


def drawn(chance: random.Random, target: Target, count: int) -> list[Callable[[Round], None]]:
    """Draw faults. One transaction that expires is alone with faults after which others do not."""
    possible = [
        fault
        for fault in FAULTS
        if (fault is not Round.server_before_commit or target.server is not None)
        and (fault is not Round.transaction_expired or target.kind == "kafka")
    ]
    faults = chance.sample(possible, min(count, len(possible)))
    if Round.transaction_expired not in faults:
        return faults
    return [fault if fault is Round.transaction_expired else chance.choice(QUICK) for fault in faults]


def attacked(one: Round) -> list[str]:
    """Inject faults until they are through or the job has ended; return which ones were."""
    done = []
    try:
        for fault in one.faults:
            pause = time.monotonic() + one.chance.uniform(0.2, 2.5)
            one.wait(lambda pause=pause: bool(one.beats()) and time.monotonic() > pause, "output")  # type: ignore[misc]
            before = one.beats()
            fault(one)
            done.append(fault.__name__)
            print(f"  {fault.__name__}", file=sys.stderr, flush=True)
            if fault not in SERVERS:
                one.wait(lambda before=before: bool(one.beats() - before), "output of a new attempt")  # type: ignore[misc]
        while one.driver.poll() is None:
            one.wait(lambda: False, "end of the job")
    except Over:
        pass
    if one.driver.wait(30):
        one.driver_gone()
    return done


def fill(broker: KafkaBroker, topic: str, count: int) -> None:
    """Write the numbers, each partition in order."""
    from confluent_kafka import Producer  # noqa: PLC0415 - a part of the extra

    # Idempotent: leaders of a new topic reject the first requests, and a batch that is sent again would come after later ones.
    settings = {"linger.ms": 20, "queue.buffering.max.messages": 200_000, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": broker.servers, **settings})
    for number in range(count):
        while True:
            try:
                producer.produce(topic, b'{"n": %d}' % number, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(120):
        raise SystemExit("the broker does not take the input")
    there: dict[int, list[int]] = {part: [] for part in range(PARTITIONS)}
    for message in sorted(broker.read(topic), key=lambda message: message.offset()):
        there[message.partition()].append(json.loads(message.value())["n"])
    if there != {part: list(range(part, count, PARTITIONS)) for part in range(PARTITIONS)}:
        raise SystemExit("the input is not in the topic as it was written")


def main() -> None:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=50_000)
    parser.add_argument("--faults", type=int, default=4, help=f"how many of the {len(FAULTS)} faults a round has")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", default="kafka", help=f"what takes turns, of: {', '.join(TARGETS)}")
    parser.add_argument("--keep", type=Path, help="a folder to make, in which everything is left")
    given = parser.parse_args()
    targets = given.targets.split(",")
    if unknown := set(targets) - set(TARGETS):
        raise SystemExit(f"{', '.join(sorted(unknown))} is no target; there are: {', '.join(TARGETS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that nothing is left running
    each = PER_MS * WINDOW_MS
    count = max(each, given.records // each * each)
    libraries, missing = jars()
    if libraries is None:
        raise SystemExit(missing)
    expected = Counter(results(count))
    totals: Counter[str] = Counter()
    with contextlib.ExitStack() as servers:
        if given.keep:
            given.keep.mkdir(parents=True)
        place = given.keep or servers.enter_context(tempfile.TemporaryDirectory(prefix="exactly-once-"))
        (home := Path(place, "kafka")).mkdir()
        broker = KafkaBroker(home, libraries)
        servers.callback(broker.stop)
        of_target: dict[str, Any] = {"kafka": broker}
        if "postgresql" in targets:
            binaries, missing = postgres_binaries()
            if binaries is None:
                raise SystemExit(missing)
            of_target["postgresql"] = PostgresServer(binaries, fsync="on")
            servers.callback(of_target["postgresql"].remove)
            of_target["postgresql"].start()
        broker.start()
        source_topic = broker.topic(partitions=PARTITIONS)
        fill(broker, source_topic, count)
        for number in range(given.rounds):
            chance, began = random.Random(given.seed + number), time.monotonic()
            (folder := Path(place, f"round-{number}")).mkdir()
            kind = targets[number % len(targets)]
            target = TARGETS[kind](folder, of_target.get(kind))
            one = Round(folder, broker, target, source_topic, given.rate, chance, given.faults)
            try:
                done = attacked(one)
                found = target.seen()
            finally:
                one.driver.kill()
            wrong = {"lost": (expected - found).total(), "doubled": (found - expected).total()}
            totals.update(wrong, rounds=1, faults=len(done))
            line = {"round": number, "target": kind, **wrong, "records": count, "results": expected.total()}
            line |= {"drivers": one.drivers, "seconds": round(time.monotonic() - began, 1), "faults": done}
            print(json.dumps(line), flush=True)
            if found != expected:
                (folder / "evidence.json").write_text(json.dumps(target.evidence()))
                print(f"  lost: {sorted(expected - found)[:5]}", file=sys.stderr)
                print(f"  doubled or wrong: {sorted(found - expected)[:5]}", file=sys.stderr, flush=True)
    print(json.dumps(totals), flush=True)
    if totals["lost"] or totals["doubled"] or not totals["faults"]:
        raise SystemExit("WRONG")


if __name__ == "__main__":
    main()
