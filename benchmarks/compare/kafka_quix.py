"""Runner: Quix Streams, a process per core in one consumer group; state in RocksDB, without changelog topics.

Quix counts per key of the message, which is the user here: it needs no exchange of records between its processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import kafka_common
from protocol import Reading, Spec, answer, spec, watch
from quixstreams import Application

EVERY = 0.05
CHECK_SECONDS = 120.0


class Counter:
    """Counts per user, and writes what was done several times a second; with ``keep`` also all results."""

    def __init__(self, path: str, keep: bool) -> None:
        self.keep, self.count, self.written = keep, 0, 0.0
        self.file = Path(path).open("w")  # noqa: SIM115 - open as long as the process

    def __call__(self, order: Any, state: Any) -> Any:
        count = state.get("n", 0) + 1
        state.set("n", count)
        self.count += 1
        if self.keep:
            print(json.dumps([order["user"], count]), file=self.file, flush=True)
        elif time.time() - self.written > EVERY:
            self.written = time.time()
            print(json.dumps([self.written, self.count]), file=self.file, flush=True)
        return order


def work(wanted: Spec, phase: str, group: str, index: int) -> None:
    """Be a process of the group."""
    check = phase == "check"
    app = Application(
        kafka_common.servers(), consumer_group=group, auto_offset_reset="earliest", use_changelog_topics=False,
        state_dir=f"{wanted.folder}/state-{phase}-{index}", loglevel="ERROR",
        consumer_extra_config=dict(kafka_common.CLIENT),
    )  # fmt: skip
    topic = app.topic(kafka_common.CHECKED if check else kafka_common.MEASURED, value_deserializer="json")
    frame = app.dataframe(topic)
    frame.apply(Counter(f"{wanted.folder}/{phase}-{index}", check), stateful=True)
    app.run()


def workers(wanted: Spec, phase: str) -> list[subprocess.Popen[bytes]]:
    """Start the processes of a group."""
    command = [sys.executable, __file__, wanted.dump(), phase, uuid.uuid4().hex]
    return [subprocess.Popen([*command, str(index)], stdout=sys.stderr) for index in range(wanted.parallelism)]


def lines(wanted: Spec, phase: str, last: bool) -> list[Any]:
    """Return what the processes have written: the whole lines, or the last of each."""
    found = []
    for path in Path(wanted.folder).glob(f"{phase}-?"):
        whole = path.read_text().rpartition("\n")[0].splitlines()
        found += [json.loads(line) for line in (whole[-1:] if last else whole)]
    return found


def end(group: list[subprocess.Popen[bytes]]) -> None:
    """End the processes of a group."""
    for process in group:
        process.kill()
    for process in group:
        process.wait(30)


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    if sys.argv[2:]:
        work(wanted, sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    group, deadline = workers(wanted, "check"), time.monotonic() + CHECK_SECONDS
    wanted_results = 25 * wanted.keys
    while len(found := lines(wanted, "check", False)) < wanted_results and time.monotonic() < deadline:
        time.sleep(0.2)
    end(group)
    number = kafka_common.check([(user, count) for user, count in found], wanted.keys)

    def read() -> Reading | None:
        newest = lines(wanted, "measure", True)
        return (max(at for at, _ in newest), sum(count for _, count in newest), {}) if newest else None

    group = workers(wanted, "measure")
    try:
        answer({"checked": number, **watch(read, wanted, int(0.999 * kafka_common.total()))})
    finally:
        end(group)


if __name__ == "__main__":
    main()
