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
    "Connected components, bulk": ("", "bulk", "flink-bulk", "components-frame"),
    "Connected components, delta": ("", "delta", "flink-delta", "components-frame"),
    "WordCount": ("", "words", "", "words-rdd"),
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
    """Return how much less a delta iteration does than the bulk one once its workset is below a tenth: in records and in time."""
    bulk, delta, worksets = cases["bulk"]["superstep_ms"], cases["delta"]["superstep_ms"], cases["delta"]["worksets"]
    few = [at for at, size in enumerate(worksets) if size * 10 < worksets[0] and at < len(bulk)]
    records = len(few) * worksets[0] / sum(worksets[at] for at in few)
    time = sum(bulk[at] for at in few) / sum(delta[at] for at in few)
    return f"{records:.0f} x fewer records, {time:.1f} x less time, in the last {len(few)} of {len(delta)} supersteps"


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
        sys.stdout.write(f"Delta iteration, beside bulk: {tail(cases)}\n")


if __name__ == "__main__":
    main()
