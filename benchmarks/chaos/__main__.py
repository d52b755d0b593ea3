"""``make chaos``: a long job on Spark, attacked at random times in every way there is a fault for (``faults.py``).

At the end the files must hold every event once and no alert, against what the generator is known to have made. The one
exception is a checkpoint that was complete, and damaged afterwards: the job resumes from the one before it, and what sinks
had committed since then is written again. That is checked, too: nothing but those records may come twice. Prints how long it
took from each fault to new output.

usage: chaos [--rounds N] [--only TEXT,TEXT] [--rate R] [--every S] [--seed N] [--json FILE]; FILE gets the throughput over time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from faults import FAULTS, Fault, Recovery
from job import ADDRESSES, event
from world import World

_SECONDS_PER_FAULT = 10.0


def lines_of(paths: set[Path]) -> Counter[str]:
    """Return what files hold."""
    return Counter(line for path in paths for line in path.read_text().splitlines())


def verdict(world: World, repeated: Counter[str]) -> Counter[str]:
    """Compare the output with what was made; ``repeated`` came again because a complete checkpoint was damaged."""
    expected = Counter(f"{address} {step}" for address, step in map(event, range(world.count)))
    found = lines_of({path for path in (world.folder / "out").rglob("*") if path.is_file() and path.name[0] != "."})
    alerts = sum(n for line, n in found.items() if line.startswith("ALERT"))
    return Counter(
        events=world.count,
        lost=sum((expected - found).values()),
        doubled=sum((found - expected - repeated).values()) - alerts,
        alerts=alerts,
        repeated=sum(repeated.values()),
    )


def chosen(only: str, disks: bool) -> list[Fault]:
    """Return the faults that are asked for and possible here."""
    wanted = [fault for fault in FAULTS if any(text.strip() in fault.name for text in only.split(","))]
    if not disks and any(fault.disk for fault in wanted):
        print("no small disks (mount -t tmpfs needs root or user namespaces): faults of disks are left out")
    return [fault for fault in wanted if disks or not fault.disk]


def attack(world: World, args: argparse.Namespace) -> tuple[list[tuple[Fault, Recovery]], Counter[str]]:
    """Inject each fault once per round, in an order and at times that are drawn."""
    chance = random.Random(args.seed)
    done: list[tuple[Fault, Recovery]] = []
    repeated: Counter[str] = Counter()
    faults = chosen(args.only, world.disks)
    todo = [fault for _ in range(args.rounds) for fault in chance.sample(faults, len(faults))]
    world.wait_for_attempt(set())
    for fault in todo:
        time.sleep(chance.uniform(0.5, 1.5) * args.every)
        recovery = None
        if not world.over and world.wait_for_checkpoint():
            recovery = fault.inject(world, chance)
        if recovery is None:
            print(f"the job ended before {fault.name!r} was through", flush=True)
            break
        done.append((fault, recovery))
        repeated += lines_of(recovery.repeated)
        print(f"{fault.name}: new output after {recovery.seconds:.1f} s (aim {fault.aim:g})", flush=True)
    while not world.over:
        time.sleep(0.1)
    if world.process.returncode:
        raise SystemExit(f"the job failed:\n{world.log.read_text()[-3000:]}")
    if len(done) < len(todo):
        raise SystemExit(f"only {len(done)} of {len(todo)} faults were injected: give the job more time (--seconds)")
    return done, repeated


def in_a_mount_namespace() -> None:
    """Run again in a mount namespace of our own, if that is possible, so that the small disks end with us."""
    how = "-m" if os.geteuid() == 0 else "-rm"
    possible = subprocess.run(["unshare", how, "true"], capture_output=True, check=False).returncode == 0
    if possible and "FUNKEN_CHAOS" not in os.environ:
        os.environ["FUNKEN_CHAOS"] = "1"
        os.execvp("unshare", ["unshare", how, sys.executable, "-W", "ignore", *sys.argv])


def main() -> None:
    """Run, attack, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="names of faults, or parts of them, with commas")
    parser.add_argument("--seconds", type=float, help="how long the generator runs; by default enough for all faults")
    parser.add_argument("--rate", type=float, default=20_000)
    parser.add_argument("--every", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    in_a_mount_namespace()
    faults = [fault for fault in FAULTS if any(text.strip() in fault.name for text in args.only.split(","))]
    seconds = args.seconds or 15 + args.rounds * len(faults) * (args.every + _SECONDS_PER_FAULT)
    count = int(seconds * args.rate) // ADDRESSES * ADDRESSES
    world = World(Path(tempfile.mkdtemp(prefix="funken-chaos-")), count, args.rate)
    try:
        done, repeated = attack(world, args)
        found = verdict(world, repeated)
        timeline = world.timeline()
    finally:
        if not world.over:
            world.process.kill()
        world.unmount()
    for fault in dict.fromkeys(fault for fault, _ in done):
        times = [recovery.seconds for other, recovery in done if other == fault]
        print(f"{fault.name:36} {len(times):3} times, median {statistics.median(times):5.1f} s, aim {fault.aim:g} s")
    print(", ".join(f"{name} {n:,}" for name, n in found.items()))
    if any(found[name] for name in ("lost", "doubled", "alerts")):
        raise SystemExit(f"WRONG; see {world.folder}")
    print("exactly once")
    if args.json is not None:
        faults_json = [(recovery.at - world.begin, fault.name, recovery.seconds) for fault, recovery in done]
        document = {"events": count, "rate": args.rate, "faults": faults_json, "timeline": timeline}
        args.json.write_text(json.dumps(document))


if __name__ == "__main__":
    main()
