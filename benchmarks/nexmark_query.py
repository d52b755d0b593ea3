"""A Nexmark query of one tree, in this process: for ``against.py``, whose trees take turns.

usage: nexmark_query.py QUERY TREE [--events N] [--seconds S] [--generated]; the program and the events are those of
``TREE``/benchmarks/nexmark, the package is the one on the path. The result over few events is compared with what DuckDB finds in
them, then jobs over many are run for some seconds, after one that warms up. They read Parquet files, which are written first;
with ``--generated``, a source makes the events.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "nexmark.json"


def main() -> None:
    """Check, then measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("query")
    parser.add_argument("tree", type=Path)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--generated", action="store_true")
    args = parser.parse_args()
    sys.path[0] = str(args.tree / "benchmarks" / "nexmark")  # in place of this folder, which has a files.py, too

    import golden  # noqa: PLC0415 - the tree's, as all that follow
    import streams  # noqa: PLC0415
    from events import Nexmark  # noqa: PLC0415
    from queries.catalogue import QUERIES  # noqa: PLC0415

    from funken import Configuration, DiscardingSink, StreamExecutionEnvironment  # noqa: PLC0415

    query = QUERIES[args.query]

    with tempfile.TemporaryDirectory() as folder:

        def ready(nexmark: Nexmark, count: int) -> tuple[StreamExecutionEnvironment, Any]:
            conf = Configuration({"execution.target": "local", "parallelism.default": 2})
            environment = StreamExecutionEnvironment.get_execution_environment(conf)
            if args.generated:
                old = getattr(streams, "GeneratedStreams", None) or streams.Streams
                return environment, old(environment, nexmark.source(count), folder)
            from files import write_events  # noqa: PLC0415

            events = Path(folder, f"{nexmark.rate}-{count}")
            if not events.exists():
                write_events(nexmark, count, events)
            return environment, streams.ParquetStreams(environment, events, folder)

        _, events = ready(golden.EVENTS, golden.COUNT)
        with query.program(events).execute_and_collect() as records:
            rows = [tuple(record) for record in records]
        found = golden.digest({row[: query.key]: row for row in rows}.values() if query.key else rows)
        right = json.loads(GOLDEN.read_text())[query.name]
        assert found == right, f"wrong result: {found} rows, not {right}"
        runs, took, used = -1, 0.0, 0.0  # the first one warms up
        while took < args.seconds:
            environment, events = ready(Nexmark(), args.events)
            query.program(events).sink_to(DiscardingSink())
            started, cpu = time.perf_counter(), time.process_time()
            environment.execute(query.name)
            if runs >= 0:
                took += time.perf_counter() - started
                used += time.process_time() - cpu
            runs += 1
    events_read = runs * args.events
    print(json.dumps({"records_per_s": events_read / took, "records_per_cpu_s": events_read / used, "p99": 0}))


if __name__ == "__main__":
    main()
