"""Runner: Flink's JVM, the DataStream job of ``java/Jobs.java`` in a local cluster, one JVM.

The source's count is the measure: what is between it and the sink are a few buffers. Variant ``object-reuse`` lets
operators of a chain hand records on without a copy, which Flink leaves to users because it is not safe for all programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import flink
import oracle
from protocol import ENDLESS, Spec, answer, spec, watch

OPENS = ["java.util", "java.lang", "java.time"]


def command(wanted: Spec, count: int, per_ms: int, sink: str, metrics: str = "") -> list[str]:
    """Return the command of a job."""
    # By the clock, the windows of two runs are not the same: what is checked is the program with synthetic time.
    stamped = wanted.stamped and (count == ENDLESS or wanted.program == "keyed")
    conf = flink.options(wanted, metrics)
    if wanted.variant == "object-reuse":
        conf["pipeline.object-reuse"] = "true"
    return [
        "java",
        "-Xmx2g",
        *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENS),
        "-cp",
        os.environ["FLINK_CLASSPATH"],
        "bench.Jobs",
        *(wanted.program, str(count), str(wanted.rate if count == ENDLESS else 0), str(wanted.keys), str(per_ms)),
        *(str(stamped).lower(), sink),
        *(f"{key}={value}" for key, value in conf.items()),
    ]


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    checked = Path(wanted.folder, "checked")
    checked.mkdir()
    bounded = command(wanted, oracle.CHECKED, oracle.CHECKED_PER_MS, str(checked))
    subprocess.run(bounded, stdout=sys.stderr, check=True, timeout=180)
    number = oracle.check(wanted.program, flink.results(wanted.program, str(checked)), wanted.keys)
    metrics = f"{wanted.folder}/metrics.jsonl"
    endless = command(wanted, ENDLESS, wanted.per_ms, "latencies" if wanted.stamped else "discard", metrics)
    process = subprocess.Popen(endless, stdout=sys.stderr)
    try:
        answer({"checked": number, **watch(flink.Metrics(metrics), wanted)})
    finally:
        process.kill()
        process.wait(30)


if __name__ == "__main__":
    main()
