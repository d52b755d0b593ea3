"""State that is larger than the memory it may use: kept, saved, and dealt out anew, with the same results.

A job keeps a VALUE of incompressible bytes and a count for each of KEYS keys, in RocksDB, and sees every key three times. It
is cancelled with 2 subtasks, goes on with 4 from the files of its newest checkpoint, is stopped, and ends with 1, from its
savepoint. Then another run does the same without a break. Each run is a process of its own; the records of the last round
are written exactly once, and have to be the same in both, and right.

`--speed` measures the state alone instead: one get and one put per record, hashmap and rocksdb in turn in one process, for
few keys, which stay in the cache of objects, and for many.

usage: state_size.py [KEYS] [--value BYTES] [--memory SIZE] [--folder FOLDER] [--speed]
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from funken import (
    Configuration,
    DataGeneratorSource,
    Encoder,
    FileSink,
    KeyedProcessFunction,
    RollingPolicy,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.connectors.files.sink import BucketAssigner
from funken.errors import JobCancelled
from funken.state.backend import HashMapBackend
from funken.state.keyed import KeyedStateStore
from funken.state.rocksdb.backend import RocksDBBackend, TaskDatabases

RUNS = ("2", "4", "1", "unbroken")


def content(key: int, size: int) -> bytes:
    """Return what is kept for a key: bytes that nobody can make smaller."""
    return hashlib.shake_128(key.to_bytes(8, "big")).digest(size)


class Keep(KeyedProcessFunction):
    """Keeps something large, and counts; in the last round it says what it has."""

    def __init__(self, keys: int, size: int, folder: str, stop_at: int) -> None:
        self._keys, self._size, self._folder, self._stop_at = keys, size, folder, stop_at

    def open(self, runtime_context: Any) -> None:
        """Get the state, and say when: what was saved has been read by now."""
        self._state = runtime_context.get_state(ValueStateDescriptor("kept"))
        (Path(self._folder) / f"opened-{runtime_context.get_index_of_this_subtask()}").write_text(str(time.time()))

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        """See a key once more."""
        key = value % self._keys
        kept = self._state.value()
        count, what = (0, content(key, self._size)) if kept is None else kept
        self._state.update((count + 1, what))
        if value == self._stop_at:
            (Path(self._folder) / "far-enough").touch()
        if value >= 2 * self._keys:
            yield f"{key} {count + 1} {zlib.crc32(what)}"


def run(name: str, args: argparse.Namespace) -> None:
    """Be one of the runs, in a process of its own; print what it came to."""
    folder = Path(args.folder)
    parallelism = 2 if name == "unbroken" else int(name)
    results = folder / ("unbroken" if name == "unbroken" else "broken")
    marks = folder / f"marks-{name}"
    marks.mkdir(parents=True, exist_ok=True)
    stop_at = {"2": int(args.keys * 1.2), "4": int(args.keys * 1.7)}.get(name, -1)
    job_id = f"run-{name}"
    options: dict[str, Any] = {
        "execution.target": "local", "parallelism.default": parallelism, "state.backend.type": "rocksdb",
        "state.backend.rocksdb.memory.fixed-per-slot": args.memory, "io.tmp.dirs": str(folder / "work"),
        "execution.job-id": job_id, "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        "execution.checkpointing.interval": "5 s", "execution.checkpointing.timeout": "30 min",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }  # fmt: skip
    if args.start_from:
        options["execution.state-recovery.path"] = args.start_from
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(options))
    numbers = env.from_source(
        DataGeneratorSource(lambda i: i, 3 * args.keys), WatermarkStrategy.no_watermarks(), "numbers"
    )
    numbers = numbers.uid("numbers").set_parallelism(1)
    kept = numbers.key_by(lambda n: n % args.keys).process(Keep(args.keys, args.value, str(marks), stop_at))
    sink = (
        FileSink.for_row_format(str(results), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    kept.uid("keep").set_max_parallelism(128).sink_to(sink).uid("files")
    begin = time.time()
    client = env.execute_async("state size")
    answer: dict[str, Any] = {"run": name}
    if stop_at >= 0:
        far, over = marks / "far-enough", client.get_job_execution_result()
        wait_for(lambda: far.exists() or over.done())
        if name == "2":
            wait_for(lambda: any(at > far.stat().st_mtime for at, _ in checkpoints(folder / "checkpoints" / job_id)))
            client.cancel().result(60)
        else:
            asked = time.time()
            answer["savepoint"] = client.stop_with_savepoint(False, None).result(1800)
            answer["stop"] = time.time() - asked
    with contextlib.suppress(JobCancelled):
        client.get_job_execution_result().result(7200)
    answer["seconds"] = time.time() - begin
    answer["opened"] = max(float(mark.read_text()) for mark in marks.glob("opened-*")) - begin
    answer["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    place = Path(answer.get("savepoint") or folder / "checkpoints" / job_id)
    answer["saved"] = answer.get("savepoint") or max(checkpoints(place), default=(0.0, ""))[1]
    answer["size"] = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    print(json.dumps(answer))


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so, at most half an hour."""
    limit = time.monotonic() + 1800
    while not condition():
        if time.monotonic() > limit:
            raise TimeoutError("nothing has come of it within half an hour")
        time.sleep(0.05)


def checkpoints(folder: Path) -> list[tuple[float, str]]:
    """Return when the checkpoints of a job were complete, and where they are."""
    return [(path.stat().st_mtime, str(path.parent)) for path in folder.glob("chk-*/_metadata")]


def lines(folder: Path) -> list[str]:
    """Return what was written, in order."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return sorted(line for path in files for line in path.read_text().splitlines())


def mib(count: float) -> str:
    """Return a number of bytes for people."""
    return f"{count / 2**20:,.0f} MiB"


def sizes(args: argparse.Namespace) -> int:
    """Do all runs, print what they took, and compare."""
    folder = Path(args.folder)
    print(
        f"{args.keys:,} keys with {args.value:,} bytes: {mib(args.keys * args.value)}; {args.memory} per task",
        flush=True,
    )
    start_from = ""
    for name in RUNS:
        command = [sys.executable, __file__, str(args.keys), "--value", str(args.value), "--memory", args.memory]
        command += ["--folder", args.folder, "--run", name, "--start-from", start_from if name != "unbroken" else ""]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=7200)
        told = json.loads(done.stdout.splitlines()[-1])
        left = [path.name for path in (folder / "work").iterdir()]
        print(
            f"  {name:>8}: {told['seconds']:7.1f} s, read what was saved after {told['opened']:6.1f} s"
            + (f", stopped in {told['stop']:6.1f} s" if "stop" in told else "")
            + f", peak memory {mib(told['peak'])}, what it saved {mib(told['size'])}"
            + (f", LEFT BEHIND {left}" if left else ""),
            flush=True,
        )
        start_from = told["saved"]
    broken, unbroken = lines(folder / "broken"), lines(folder / "unbroken")
    right = sorted(f"{key} 3 {zlib.crc32(content(key, args.value))}" for key in range(args.keys))
    same = broken == unbroken == right
    print(f"  results: {len(broken):,} and {len(unbroken):,} lines, {'the same, and right' if same else 'DIFFERENT'}")
    return 0 if same else 1


def speed(folder: str) -> None:
    """Print gets and puts per second of both backends, in turn."""
    shared = TaskDatabases(256 * 2**20, 0.5, folder)
    for keys, records in ((1_000, 1_000_000), (1_000_000, 200_000)):
        chosen = random.Random(1).choices(range(keys), k=records)
        found: dict[str, list[float]] = {"hashmap": [], "rocksdb": []}
        stores = {
            "hashmap": KeyedStateStore(128, range(128), lambda: 0, HashMapBackend(tracked=True)),
            "rocksdb": KeyedStateStore(128, range(128), lambda: 0, RocksDBBackend(shared, 128, range(128))),
        }
        for store in stores.values():
            state = store.state(ValueStateDescriptor("n", default=0))
            for key in range(keys):
                store.current_key = key
                state.update(1)
        for _ in range(3):
            for name, store in stores.items():
                state = store.state(ValueStateDescriptor("n", default=0))
                begin = time.thread_time()
                for key in chosen:
                    store.current_key = key
                    state.update(state.value() + 1)
                found[name].append(records / (time.thread_time() - begin))
        of = {name: statistics.median(speeds) for name, speeds in found.items()}
        print(
            f"  {keys:9,} keys: hashmap {of['hashmap']:,.0f}/s, rocksdb {of['rocksdb']:,.0f}/s, "
            f"ratio {of['rocksdb'] / of['hashmap']:.3f}",
            flush=True,
        )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keys", type=int, nargs="?", default=1_100_000)
    parser.add_argument("--value", type=int, default=1000)
    parser.add_argument("--memory", default="128 mb")
    parser.add_argument("--folder", default="")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--run", choices=RUNS, help=argparse.SUPPRESS)
    parser.add_argument("--start-from", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run(args.run, args)
        return 0
    place = Path(args.folder or tempfile.mkdtemp(prefix="funken-state-size-")).resolve()
    args.folder = str(place)
    try:
        if args.speed:
            speed(args.folder)
            return 0
        return sizes(args)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(main())
