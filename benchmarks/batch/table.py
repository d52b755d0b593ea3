"""Makes tables of ``benchmarks/results/batch.json``: each program beside its peers.

usage: table.py [RESULTS.json]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results" / "batch.json"
ROWS = {
    "PageRank, 30 supersteps": ("pagerank", "pagerank-columns", "flink-pagerank", "pagerank-frame"),
    "Connected components, bulk": ("bulk", "", "flink-bulk", "components-frame"),
    "Connected components, delta": ("delta", "", "flink-delta", "components-frame"),
    "WordCount": ("words", "", "", "words-rdd"),
    "TPC-H Q3": ("", "q3", "", "q3-rdd"),
    "TPC-H Q10": ("", "q10", "", "q10-rdd"),
}
"""Of each program: opaque functions, columns, Flink in Java, and PySpark."""
UDFS = {"TPC-H Q3": "q3-udf", "TPC-H Q10": "q10-udf"}


def shown(cases: dict[str, Any], name: str) -> str:
    """Return the seconds of a case."""
    if not name or name not in cases:
        return "-"
    found = cases[name]
    return f"{found['seconds']:,.1f}" if "failed" not in found else str(found["failed"]).splitlines()[0][:40]


def tail(cases: dict[str, Any]) -> str:
    """Return how much less the last half of a delta iteration takes than the same supersteps of the bulk one."""
    bulk, delta = cases["bulk"]["superstep_ms"], cases["delta"]["superstep_ms"]
    half = len(delta) // 2
    return f"{sum(bulk[half : len(delta)]) / sum(delta[half:]):.1f} x"


def main() -> None:
    """Print the tables."""
    cases = json.loads(Path(sys.argv[1] if len(sys.argv) > 1 else RESULTS).read_text())["cases"]
    titles = "functions that are called | columns | Flink, Java | PySpark, RDD or joins | PySpark, Python functions"
    lines = [f"| seconds | {titles} |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for title, names in ROWS.items():
        fields = [shown(cases, name) for name in (*names, UDFS.get(title, ""))]
        lines.append(f"| {title} | {' | '.join(fields)} |")
    sys.stdout.write("\n".join(lines) + "\n\n")
    if "ms" in cases.get("empty", {}):
        sys.stdout.write(f"An empty superstep: {cases['empty']['ms']} ms\n")
    if "lost_seconds" in cases.get("kill", {}):
        sys.stdout.write(f"A worker killed in superstep 12 of 30: {cases['kill']['lost_seconds']} s lost\n")
    if all("superstep_ms" in cases.get(name, {}) for name in ("bulk", "delta")):
        sys.stdout.write(f"Second half of the supersteps, bulk to delta: {tail(cases)}\n")


if __name__ == "__main__":
    main()
