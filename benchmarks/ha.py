"""High availability: kill or stop the leader of a job N times, compare the output with the input, print the times to new output.

``python benchmarks/ha.py --kills 20 --target local``; ``--target continuous`` for Spark, ``--zookeeper HOST:PORT`` instead of the
lease, ``--zookeeper own`` with a server that is started for it, from PySpark's jars.
Two drivers run at any time. At a random moment the leader gets SIGKILL, or SIGSTOP and, once another leads, SIGCONT; what is left
of its process group is killed, and a new standby starts. Every record has to be in the output once. Exit code 1 if not.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

KEYS = 10
LOCAL_SECONDS, SPARK_SECONDS = 8, 35
"""How long a kill, and the start of another standby, takes at most."""
BOUND = 300
ROOT = Path(__file__).parents[1]


def job(folder, count, rate, options):
    """Run one driver."""
    import logging  # noqa: PLC0415 - of the drivers' processes only

    from funken import (  # noqa: PLC0415
        Configuration,
        DataGeneratorSource,
        Encoder,
        FileSink,
        RollingPolicy,
        StreamExecutionEnvironment,
        WatermarkStrategy,
    )

    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
    numbers = env.from_source(DataGeneratorSource(int, count, rate), WatermarkStrategy.no_watermarks(), "numbers")
    sums = numbers.uid("numbers").map(lambda n: (n % KEYS, 1)).key_by(lambda pair: pair[0])
    sink = FileSink.for_row_format(f"{folder}/out", Encoder.simple_string_encoder())
    sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    counts = sums.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("counts")
    counts.map(lambda pair: f"{pair[0]} {pair[1]}").sink_to(sink).uid("files")
    env.execute("counts")


class Driver:
    """One driver's process, with a process group of its own."""

    def __init__(self, folder, number, args, options):
        self.log = folder / f"driver-{number}.log"
        command = [sys.executable, __file__, "--job", str(folder), json.dumps(options)]
        command += ["--count", str(args.count), "--rate", str(args.rate)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd=ROOT)

    @property
    def leads(self):
        """Whether it has ever led."""
        return "this driver leads in term" in self.log.read_text()

    @property
    def waits(self):
        """Whether it is a standby, with a session of its own in which a job has run."""
        return "this standby is" in self.log.read_text()

    def signal(self, number):
        """Send the driver's process a signal; its JVM notices by itself."""
        os.kill(self.process.pid, number)

    def end(self):
        """End all that is left of it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGCONT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(BOUND)


def files(folder):
    """The files that everybody may read."""
    return {path for path in (folder / "out").rglob("part-*") if path.is_file()}


def until(condition, what, bound=BOUND):
    """Wait for a condition, with a bound; return how long it took (s)."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > bound:
            raise SystemExit(f"{what}: not within {bound:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - begin


def attack(folder, args, options):
    """Kill leaders until enough are dead; return the times to new output, and whether the job is over."""
    drivers = []
    try:
        return attack_each(drivers, folder, args, options)
    finally:
        for driver in drivers:
            driver.end()


def attack_each(drivers, folder, args, options):
    """Kill leaders; the drivers that are left are in the list."""
    chance = random.Random(args.seed)
    times, number = [], 0

    def start():
        nonlocal number
        number += 1
        drivers.append(Driver(folder, number, args, options))

    start()
    until(lambda: drivers[0].leads, "the first driver leads")
    start()
    for kill in range(args.kills):
        until(lambda: drivers[1].waits or drivers[0].process.poll() is not None, "a standby is there")
        until(lambda: len(files(folder)) > 0 or drivers[0].process.poll() is not None, "output")
        time.sleep(chance.uniform(0.2, 2.0))
        leader, standby = drivers
        if leader.process.poll() is not None:
            print(f"the job was over after {kill} kills; raise --count")
            break
        stopped = kill % 2 == 1 and not args.only_kill
        before = files(folder)
        leader.signal(signal.SIGSTOP if stopped else signal.SIGKILL)
        begin = time.monotonic()
        until(lambda one=standby: one.leads or one.process.poll() is not None, "the standby leads")
        led = time.monotonic() - begin
        seen = files(folder)  # what the old leader completed may have been committed by now
        until(lambda seen=seen, one=standby: files(folder) - seen or one.process.poll() is not None, "new output")
        took = time.monotonic() - begin
        times.append(took)
        if stopped:
            leader.signal(signal.SIGCONT)
            time.sleep(chance.uniform(0.5, 2.0))  # it may try what it likes
        leader.end()
        drivers.pop(0)
        new = len(files(folder) - before)
        print(f"{'SIGSTOP' if stopped else 'SIGKILL'}: leads after {led:.1f} s, new output after {took:.1f} s ({new} files)",
              flush=True)  # fmt: skip
        start()
    # what was to be read from the last checkpoint on
    end = until(lambda: drivers[0].process.poll() is not None, "the job finishes", args.count / args.rate + BOUND)
    print(f"finished {end:.0f} s later, exit code {drivers[0].process.returncode}")
    return times, drivers[0].process.returncode


def main():
    """Run a job under attack, or one of its drivers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only-kill", action="store_true", help="no SIGSTOP")
    parser.add_argument("--target", default="local", choices=["local", "continuous"])
    parser.add_argument("--zookeeper", default="")
    parser.add_argument("--lease", default="3 s")
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--count", type=int, default=0, help="0: enough for the kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", default="")
    parser.add_argument("--job", nargs=2, metavar=("FOLDER", "OPTIONS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        job(args.job[0], args.count, args.rate, json.loads(args.job[1]))
        return
    seconds = LOCAL_SECONDS if args.target == "local" else SPARK_SECONDS
    args.count = args.count or int(args.rate * seconds * (args.kills + 1)) // KEYS * KEYS
    with tempfile.TemporaryDirectory(prefix="funken-ha-") as made, contextlib.ExitStack() as servers:
        folder = Path(made)
        if args.zookeeper == "own":
            sys.path.insert(0, str(ROOT))
            from tests.support.zookeeper import ZooKeeperServer  # noqa: PLC0415 - not for other elections

            (folder / "zookeeper").mkdir()
            server = ZooKeeperServer(folder / "zookeeper")
            servers.callback(server.stop)
            args.zookeeper = server.start().address
        options = {
            "execution.target": args.target,
            "parallelism.default": 1,
            "execution.checkpointing.interval": "200 ms",
            "execution.checkpointing.dir": f"{folder}/checkpoints",
            "high-availability.type": "zookeeper" if args.zookeeper else "lease",
            "high-availability.cluster-id": "ha",
            "high-availability.lease.duration": args.lease,
            "high-availability.zookeeper.quorum": args.zookeeper,
            "high-availability.zookeeper.client.session-timeout": args.lease,
            "rest.enabled": "false",
        }
        times, code = attack(folder, args, options)
        expected = Counter(f"{key} {n}" for key in range(KEYS) for n in range(1, args.count // KEYS + 1))
        found = Counter(line for path in files(folder) for line in path.read_text().splitlines())
        lost, doubled = sum((expected - found).values()), sum((found - expected).values())
        if lost or doubled or code:
            for log in sorted(folder.glob("driver-*.log")):
                print(f"--- {log.name}\n{log.read_text()[-2000:]}")
    times.sort()
    result = {
        "target": args.target, "election": "zookeeper" if args.zookeeper else "lease", "lease": args.lease, "kills": len(times),
        "records": args.count, "lost": lost, "doubled": doubled, "median_s": statistics.median(times), "longest_s": times[-1],
    }  # fmt: skip
    print(json.dumps(result))
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(1 if lost or doubled or code else 0)


if __name__ == "__main__":
    main()
