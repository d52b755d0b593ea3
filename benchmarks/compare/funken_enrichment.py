"""Runner: asks an external service for each record, one answer at a time or many at once (``benchmarks/async_enrichment.py``).

The programs compare every answer with what it should be, and fail if a record is missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from protocol import answer, spec

SCRIPT = Path(__file__).parent.parent / "async_enrichment.py"


def main() -> None:
    """Run and answer."""
    wanted = spec()
    length = [
        "--seconds",
        str(wanted.seconds),
        "--warmup",
        str(wanted.warmup),
        "--rounds",
        "1" if wanted.seconds < 5 else "3",
    ]
    command = [sys.executable, "-W", "ignore", str(SCRIPT), "--target", "continuous", "--json", *length]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=400, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    latencies = found["results"]
    lines = ["| program | p50 ms | p90 ms | p99 ms |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {name} | {q['p50']:.1f} | {q['p90']:.1f} | {q['p99']:.1f} |" for name, q in latencies.items()]
    lines += ["", f"p99 of one answer at a time / of many, unordered: {found['p99_ratio']}."]
    answer({"details": lines, "latencies": latencies, "p99_ratio": found["p99_ratio"], "facts": found})


if __name__ == "__main__":
    main()
