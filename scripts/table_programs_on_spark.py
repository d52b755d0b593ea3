"""Run the test programs of Flink's table planner on Spark, and compare what they leave with a run in this process.

    python scripts/table_programs_on_spark.py programs.json [--target continuous|batch|local] [--count N] [--parallelism N]

Sources hand out the rows of before and after the restore at once, and end. What is compared is the rows that are left of all
changes: rows of different subtasks arrive in any order. The run in this process has one subtask and one thread.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import cloudpickle
from flink_table_programs import Phase, Run, limited, rows_for, selected, summed, texts_of

from funken import Configuration, StreamExecutionEnvironment
from funken.table.connectors.values import register_rows, written_results
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment


class RunOnTarget(Run):
    """A program over all of its rows, on any target."""

    def __init__(self, program: dict[str, Any], runner: dict[str, Any], folder: str, target: str, width: int) -> None:
        super().__init__(program, runner, "in turns", folder)
        self._options = {
            "execution.target": target,
            "parallelism.default": width,
            "restart-strategy.type": "none",
        }
        if target != "batch":
            self._options["execution.runtime-mode"] = "streaming"

    def environment(self, phase: Phase) -> StreamTableEnvironment:
        """Return an environment with the tables of the program."""
        settings = EnvironmentSettings.in_batch_mode() if self.batch else EnvironmentSettings.in_streaming_mode()
        tables = StreamTableEnvironment.create(StreamExecutionEnvironment(Configuration(self._options)), settings)
        tables.get_config().set("table.local-time-zone", "UTC")
        for key, value in {**(self.runner.get("default_config") or {}), **self.program["config"]}.items():
            tables.get_config().set(key, value)
        for name in self._setup_order():
            self._set_up(tables, name, phase)
        return tables

    def _source(self, tables: Any, table: dict[str, Any], phase: Phase) -> None:
        found = table["rows_before_restore"] + table["rows_after_restore"]
        options = {
            "connector": "values",
            "disable-lookup": "true",
            **table["options"],
            "data-id": register_rows(rows_for(table, found)),
        }
        self._create(tables, table, options)

    def _sink(self, tables: Any, table: dict[str, Any]) -> None:
        options = {
            "connector": "values", **table["options"], "result-id": table["name"], "result-path": self.folder
        }  # fmt: skip
        self._create(tables, table, options)

    def _execute(self, tables: Any, phase: Phase) -> str:
        tables.stream_environment.execute(self.program["field"])
        return ""

    def left(self) -> dict[str, Counter[str]]:
        """Run it, and return the rows that are left in each sink."""
        self.run_phase(Phase("all"))
        found = {}
        for sink in self.program["sinks"]:
            names = [column["name"] for column in sink["columns"] if column["kind"] != "computed"]
            key = tuple(map(names.index, sink.get("primary_key") or _key_of(sink)))
            results = written_results(self.folder, sink["name"], key)
            found[sink["name"]] = (
                Counter(texts_of(results.rows(), sink)) if key else summed(texts_of(results.changes, sink))
            )
        return found


def _key_of(sink: dict[str, Any]) -> list[str]:
    for part in sink["schema"]:
        if "PRIMARY KEY" in part:
            inside = part[part.index("(") + 1 : part.index(")")]
            return [name.strip().strip("`") for name in inside.split(",")]
    return []


def outcome(program: dict[str, Any], runner: dict[str, Any], args: argparse.Namespace) -> str:
    """Return ``ok``, or what differs."""
    found = []
    for target, width in (("local", 1), (args.target, args.parallelism)):
        with tempfile.TemporaryDirectory() as folder:
            try:
                with limited(args.seconds):
                    found.append(RunOnTarget(program, runner, folder, target, width).left())
            except Exception as error:  # noqa: BLE001 - reported
                lines = str(error).strip().splitlines() or [""]
                return f"{target}: {type(error).__name__}: {lines[0][:300]}"
    if found[0] == found[1]:
        return "ok"
    parts = []
    for name, wanted in found[0].items():
        surplus, missing = found[1][name] - wanted, wanted - found[1][name]
        parts.append(f"{name}: surplus {[*surplus][:5]}, missing {[*missing][:5]}")
    return "differs: " + "; ".join(parts)


def main() -> int:
    """Run a sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--target", choices=("continuous", "batch", "local"), default="continuous")
    parser.add_argument("--count", type=int, default=60, help="so many programs, spread over all")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--filter", action="append")
    parser.add_argument("--seconds", type=int, default=60, help="limit per program")
    args = parser.parse_args()
    args.skip, args.kind = None, None
    logging.disable(logging.CRITICAL)
    import flink_test_functions  # noqa: PLC0415 - what it defines travels to workers

    cloudpickle.register_pickle_by_value(flink_test_functions)
    pairs = [
        pair
        for pair in selected(json.loads(args.path.read_text())["programs"], args)
        if not any(step["kind"].startswith("failing") for step in pair[0]["run"])
    ]
    step = max(1, len(pairs) // args.count)
    counts: Counter[str] = Counter()
    for program, runner in pairs[::step][: args.count]:
        begun = time.monotonic()
        text = outcome(program, runner, args)
        counts[text.split(":")[0]] += 1
        name = f"{program['class'].rpartition('.')[2]}.{program['field']}"
        print(f"{text[:600]:4} {name} ({time.monotonic() - begun:.1f} s)", flush=True)
    print(f"{counts['ok']} of {counts.total()} leave the same rows: {dict(counts)}")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    raise SystemExit(main())
