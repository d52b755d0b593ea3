"""Run the test programs of Flink's table planner on Funken, from a file that has them as JSON.

    python scripts/flink_table_programs.py programs.json [--filter TEXT]... [--kind restore|semantic|batch] [--list] [--verbose]

Each program runs in this process, in one thread, under a clock that the runner turns: a job stands still when its sources have
no more rows, so a phase ends when it is idle. Sources hand out a row in turns. Programs of the kind ``restore`` run in two
phases with a savepoint between them. Sources one after the other are tried where the order of inputs may matter.
"""

from __future__ import annotations

import argparse
import datetime
import json
import logging
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from funken import Configuration, Row, RowKind, StreamExecutionEnvironment
from funken.api.jobs.client import JobClient
from funken.checkpoint.machine import Stop
from funken.expr.sql.values import VariantValue
from funken.runtime.driver.local_runner import LocalRunner
from funken.table.connectors.values import register_rows, results_of
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment
from funken.table.types import MapType, MultisetType, RowType, parse_type
from funken.table.values import java_row
from funken.timing.clock import ManualClock

KINDS = {str(kind): kind for kind in RowKind}
START = 1_704_067_200_000
"""Processing time when a program begins: 2024-01-01."""
IDLE_MILLIS = 12_000
"""For how long (ms of the runner's clock) a phase may wait for what it expects."""
SETTLED_MILLIS = 1_000
ORDERS = ("in turns", "one after the other", "in reverse")
_UNITS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


# ---- values


def decode(found: Any, type_: Any = None) -> Any:
    """Return the Python value of a value in the file, for a column of a type."""
    if found is None or isinstance(found, bool | int | str):
        return found
    if isinstance(found, float):
        return found
    tag, value = found["$"], found.get("v")
    if tag == "row":
        return decode_row(value, found["kind"], type_, found.get("names"))
    if tag in ("array", "list", "set"):
        element = getattr(type_, "element", None)
        return [decode(item, element) for item in value]
    if tag == "map":
        key, item = _entry_types(type_)
        return {decode(k, key): decode(v, item) for k, v in value}
    if tag in ("tinyint", "smallint", "bigint"):
        return value
    if tag in ("float", "double"):
        return float(value.replace("Infinity", "inf"))
    if tag == "decimal":
        return Decimal(value)
    if tag == "bytes":
        return bytes.fromhex(value)
    if tag == "object":
        fields = value["fields"]
        names = [column.name for column in type_.fields] if isinstance(type_, RowType) else list(fields)
        types = [column.type for column in type_.fields] if isinstance(type_, RowType) else [None] * len(names)
        return Row(*(decode(fields[name], kind) for name, kind in zip(names, types, strict=True)))
    return _decode_rare(tag, value, found)


def _decode_rare(tag: str, value: Any, found: Any) -> Any:
    if tag == "date":
        return datetime.date.fromisoformat(value)
    if tag == "time":
        return datetime.time.fromisoformat(value)
    if tag in ("timestamp", "sql_timestamp"):
        return datetime.datetime.fromisoformat(value.replace(" ", "T"))
    if tag == "timestamp_ltz":
        return datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    if tag == "variant":
        return variant(value)
    if tag == "bitmap":
        return frozenset(number for low, high in value for number in range(low, high + 1))
    raise ValueError(f"a value of the kind {tag!r} is not known")


def variant(found: dict[str, Any]) -> VariantValue:
    """Return a VARIANT."""
    kind = found["type"]
    if kind == "OBJECT":
        return VariantValue(kind, tuple((name, variant(one)) for name, one in found["fields"]))
    if kind == "ARRAY":
        return VariantValue(kind, tuple(variant(one) for one in found["elements"]))
    return VariantValue(kind, decode(found.get("value")))


def _entry_types(type_: Any) -> tuple[Any, Any]:
    if isinstance(type_, MapType):
        return type_.key, type_.value
    return (type_.element, None) if isinstance(type_, MultisetType) else (None, None)


def decode_row(values: list[Any], kind: str, type_: Any, names: list[str] | None = None) -> Row:
    """Return a nested row."""
    types = [column.type for column in type_.fields] if isinstance(type_, RowType) else [None] * len(values)
    if names and isinstance(type_, RowType):
        by_name = dict(zip(names, values, strict=True))
        values = [by_name.get(column.name) for column in type_.fields]
    return Row.of_kind(KINDS[kind], *(decode(value, item) for value, item in zip(values, types, strict=False)))


def rows_for(table: dict[str, Any], found: list[dict[str, Any]]) -> list[Row]:
    """Return the rows of a source: physical columns, then metadata."""
    columns = [column for column in table["columns"] if column["kind"] == "physical"]
    columns += [column for column in table["columns"] if column["kind"] == "metadata"]
    types = [_type_of(column) for column in columns]
    rows = []
    for row in found:
        values = row["fields"]
        if row.get("names"):
            by_name = dict(zip(row["names"], values, strict=True))
            values = [by_name.get(column["name"]) for column in columns]
        decoded = [decode(value, kind) for value, kind in zip(values, types, strict=False)]
        rows.append(Row.of_kind(KINDS[row["kind"]], *decoded))
    return rows


def _type_of(column: dict[str, Any]) -> Any:
    try:
        return parse_type(column["type"])
    except Exception:  # noqa: BLE001 - a type that is not known has values of any form
        return None


# ---- texts of rows


def normalized(text: str) -> str:
    """Return the text of a row with the entries of maps in order: Java's maps have none."""
    inner = re.compile(r"\{([^{}]*)\}")
    while (found := inner.search(text)) is not None:
        parts = found[1].split(", ")
        parts = ", ".join(sorted(parts) if all("=" in part for part in parts) else parts)
        text = f"{text[: found.start()]}\x01{parts}\x02{text[found.end() :]}"
    return text.replace("\x01", "{").replace("\x02", "}")


def texts_of(rows: list[Row], table: dict[str, Any]) -> list[str]:
    """Return the rows that a sink has, as Java writes them."""
    types = [_type_of(column) for column in table["columns"] if column["kind"] != "computed"]
    return [normalized(java_row(row, types)) for row in rows]


def summed(texts: list[str]) -> Counter[str]:
    """Return what is left of changes."""
    left: Counter[str] = Counter()
    for text in texts:
        left[text[2:]] += 1 if text[0] == "+" else -1
    return Counter({text: count for text, count in left.items() if count})


# ---- one run


class Failed(Exception):
    """A program gave something else than expected."""


@dataclass
class Phase:
    """A part of a run: which rows, whether the input stays open, what ends it, and where its state comes from."""

    rows: str
    stays_open: bool = False
    savepoint: bool = False
    path: str = ""
    expected: dict[str, list[str]] = field(default_factory=dict)


class Turning(LocalRunner):
    """Runs a job in this thread, and turns its clock whenever nothing is to be done."""

    def __init__(self, clock: ManualClock, phase: Phase, complete: Any, folder: str) -> None:
        super().__init__(clock, self._idle)
        self._time = clock
        self._phase = phase
        self._complete = complete
        self._folder = folder
        self._job: Any = None
        self._settled = self._idle_millis = 0
        self.saved: Any = None

    def run(self, job: Any) -> None:
        """Run a job."""
        self._job = job
        super().run(job)

    def _idle(self, seconds: float) -> None:
        millis = max(1, round(seconds * 1000))
        self._time.advance(millis)
        time.sleep(0.0005)  # for threads of asynchronous functions
        self._idle_millis += millis
        if not self._phase.stays_open:
            return
        self._settled = self._settled + millis if self._complete() else 0
        if self._settled < SETTLED_MILLIS and self._idle_millis < IDLE_MILLIS:
            return
        if not self._phase.savepoint:
            self._job.cancel()
        elif self.saved is None:
            self.saved = self._job.checkpoints.savepoint(self._folder, Stop.SUSPEND)


class Run:
    """One program under one runner and one order of its sources."""

    def __init__(self, program: dict[str, Any], runner: dict[str, Any], order: str, folder: str) -> None:
        self.program = program
        self.runner = runner
        self.batch = runner.get("mode") == "batch"
        self.order = order
        self.folder = folder
        self.id = f"{program['field']}-{id(self)}"
        self.clock = ManualClock(START)

    # -- tables

    def environment(self, phase: Phase) -> StreamTableEnvironment:
        """Return an environment with the tables of the program."""
        options: dict[str, Any] = {
            "execution.target": "local",
            "parallelism.default": 1,
            "execution.buffer-timeout.interval": 0,
            "restart-strategy.type": "none",
            "execution.runtime-mode": "streaming",
        }
        if not self.batch:
            options["execution.checkpointing.savepoint-dir"] = self.folder
        if phase.path:
            options["execution.state-recovery.path"] = phase.path
        env = StreamExecutionEnvironment(Configuration(options))
        settings = EnvironmentSettings.in_batch_mode() if self.batch else EnvironmentSettings.in_streaming_mode()
        tables = StreamTableEnvironment.create(env, settings)
        tables.get_config().set("table.local-time-zone", "UTC")
        config = {**(self.runner.get("default_config") or {}), **self.program["config"]}
        if self.runner["kind"] != "semantic" and "upsert key" in str(self.program.get("dump_problems")):
            config.setdefault("table.exec.sink.require-on-conflict", "false")  # the plan is of a version before 2.3
        for key, value in config.items():
            tables.get_config().set(key, value)
        for name in self._setup_order():
            self._set_up(tables, name, phase)
        return tables

    def _setup_order(self) -> list[tuple[str, str]]:
        program = self.program
        if self.runner["kind"] == "semantic" and program["setup_order"]:
            return [(step["step"], step["name"]) for step in program["setup_order"]]
        return [
            *(("function", one["name"]) for one in program["functions"]),
            *(("source", one["name"]) for one in program["sources"]),
            *(("model", one["name"]) for one in program["models"]),
            *(("sink", one["name"]) for one in program["sinks"]),
            *(("sql", text) for text in program["setup_sql"]),
        ]

    def _set_up(self, tables: Any, named: tuple[str, str], phase: Phase) -> None:
        step, name = named
        program = self.program
        if step == "source":
            self._source(tables, next(one for one in program["sources"] if one["name"] == name), phase)
        elif step == "sink":
            self._sink(tables, next(one for one in program["sinks"] if one["name"] == name))
        elif step == "sql":
            tables.execute_sql(name)
        elif step == "function":
            import flink_test_functions  # noqa: PLC0415 - few programs need them

            function = next(one for one in program["functions"] if one["name"] == name)
            flink_test_functions.register(tables, function)
        elif step == "model":
            import flink_test_functions  # noqa: PLC0415 - few programs need them

            flink_test_functions.register_model(tables, next(one for one in program["models"] if one["name"] == name))

    def _source(self, tables: Any, table: dict[str, Any], phase: Phase) -> None:
        found = []
        if phase.rows in ("before", "all"):
            found += table["rows_before_restore"]
        if phase.rows in ("after", "all"):
            found += table["rows_after_restore"]
        if phase.rows == "after" and table["before_rows_count_as_consumed"]:
            found = table["rows_after_restore"]
        options = {
            "connector": "values",
            "disable-lookup": "true",
            **table["options"],
            "data-id": register_rows(rows_for(table, found)),
        }
        if any(part.startswith("WATERMARK FOR") for part in table["schema"]):
            options |= {"enable-watermark-push-down": "true", "scan.watermark.emit.strategy": "on-event"}
        if phase.stays_open:
            options["hold-open"] = "true"
        position = [one["name"] for one in self.program["sources"]].index(table["name"])
        if self.order != ORDERS[0] and len(self.program["sources"]) > 1:
            place = position if self.order == ORDERS[1] else len(self.program["sources"]) - 1 - position
            options["start-delay"] = f"{place * 100} ms"
        self._create(tables, table, options)

    def _sink(self, tables: Any, table: dict[str, Any]) -> None:
        options = {"connector": "values", **table["options"], "result-id": f"{self.id}.{table['name']}"}
        self._create(tables, table, options)

    def _create(self, tables: Any, table: dict[str, Any], options: dict[str, str]) -> None:
        text = f"CREATE TABLE `{table['name']}` (\n  {', '.join(table['schema'])}\n)"
        if table.get("distribution"):
            text += f" {table['distribution']}" if isinstance(table["distribution"], str) else ""
        if table.get("partition_keys"):
            text += f" PARTITIONED BY ({', '.join(f'`{key}`' for key in table['partition_keys'])})"
        shown = ", ".join(f"'{key}' = '{str(value).replace(chr(39), chr(39) * 2)}'" for key, value in options.items())
        tables.execute_sql(f"{text} WITH ({shown})")

    # -- running

    def run_phase(self, phase: Phase) -> str:
        """Run the statements over the rows of a phase; return the path of the savepoint, if there is one."""
        tables = self.environment(phase)
        path = ""
        for step in self.program["run"]:
            if step["kind"] in ("failing_sql", "failing_table_api"):
                self._failing(tables, step, phase)
                continue
            if step["kind"] == "table_api" or (
                step["kind"] == "sql" and any(other["kind"] == "table_api" for other in self.program["run"])
            ):
                if step["kind"] == "sql":
                    continue
                self._table_api(tables, step, phase)
                continue
            texts = step["statements"] if step["kind"] == "statement_set" else [step["sql"]]
            path = self._submit(tables, texts, phase)
        return path

    def _submit(self, tables: Any, texts: list[str], phase: Phase) -> str:
        statements = tables.create_statement_set()
        for text in texts:
            statements.add_insert_sql(text)
        statements.attach_as_datastream()
        return self._execute(tables, phase)

    def _execute(self, tables: Any, phase: Phase) -> str:
        runner = Turning(self.clock, phase, lambda: self._has(phase.expected), self.folder)
        client = JobClient(tables.stream_environment.job(self.program["field"], runner), runner)
        try:
            client.run()
        except Exception as error:
            if not (phase.stays_open and not phase.savepoint and type(error).__name__ == "JobCancelled"):
                raise
        return runner.saved.result(timeout=5) if runner.saved is not None else ""

    def _table_api(self, tables: Any, step: dict[str, Any], phase: Phase) -> None:
        if not step.get("sql_equivalent"):
            statements = tables.create_statement_set()
            statements.add_insert(
                f"`{step['sink']}`", self._table_of(tables, step["operations"])
            ).attach_as_datastream()
            self._execute(tables, phase)
            return
        self._submit(tables, [f"INSERT INTO `{step['sink']}` {step['sql_equivalent']}"], phase)

    def _table_of(self, tables: Any, operations: str) -> Any:
        """Build a Table that calls a process table function, with the Table API."""
        import flink_test_functions  # noqa: PLC0415 - few programs need them

        found = re.match(r"Function: \(function: \[(\w+)\], arguments: \[\w+, (.*?), DEFAULT\(\)", operations)
        if found is None or found[1] not in flink_test_functions.PROCESS:
            raise Failed("the runner cannot build this Table API program")
        table = tables.from_path(re.findall(r"identifier: \[(.*?)\]", operations)[0])
        function = flink_test_functions.PROCESS[found[1]]()
        partition = re.search(r"Partition: \(partition: \[(.*?)\]", operations)
        if partition is not None:
            table = table.partition_by(*partition[1].split(", "))
        return table.process(function, *map(int, found[2].split(", ")))

    def _failing(self, tables: Any, step: dict[str, Any], phase: Phase) -> None:
        try:
            if step["kind"] == "failing_table_api":
                raise Failed("the runner cannot build this Table API program")
            text = step["sql"]
            if re.match(r"\s*INSERT", text, re.IGNORECASE):
                self._submit(tables, [text], phase)
            else:
                result = tables.execute_sql(text)
                list(result.collect())
        except Failed:
            raise
        except Exception as error:
            chain: list[BaseException] = []
            current: BaseException | None = error
            while current is not None and current not in chain:
                chain.append(current)
                current = current.__cause__ or current.__context__
            wanted = step["expected_message"] or ""
            if not any(wanted in str(one) for one in chain):
                raise Failed(f"another error than expected: {_short(error)!r} instead of {wanted!r}") from error
            return
        raise Failed(f"no error: {step['expected_message']!r}")

    # -- results

    def changes(self, sink: dict[str, Any]) -> list[str]:
        """Return what a sink was given."""
        return texts_of(results_of(f"{self.id}.{sink['name']}").changes, sink)

    def _has(self, expected: dict[str, list[str]]) -> bool:
        return bool(expected) and all(
            Counter(self.changes(sink)) == Counter(map(normalized, expected[sink["name"]]))
            for sink in self.program["sinks"]
            if sink["name"] in expected
        )

    def compare(self, key: str) -> None:
        """Compare the sinks with what is expected of them."""
        for sink in self.program["sinks"]:
            wanted = (sink[key] if key else None) or []
            if self.batch and sink["expected_materialized_strings"]:
                wanted = sink["expected_materialized_strings"]
            wanted = [normalized(text) for text in wanted]
            results = results_of(f"{self.id}.{sink['name']}")
            materialized = sink["compare"] == "materialized"
            if materialized:
                given = texts_of(results.rows(), sink)
                if key == "expected_strings" and sink["expected_materialized_strings"]:
                    wanted = [normalized(text) for text in sink["expected_materialized_strings"]]
            else:
                given = self.changes(sink)
            if sink["deduplicated_field_indices"]:
                given, wanted = sorted(set(given)), sorted(set(wanted))
            if Counter(given) != Counter(wanted):
                what = "rows" if materialized or summed(given) != summed(wanted) else "changes"
                raise Failed(f"other {what} in {sink['name']}\n{_difference(given, wanted)}")

    def run(self) -> None:
        """Run the program as its runner does; raises what is wrong."""
        kind, after = self.runner["kind"], self.runner.get("after_restore_source")
        if kind != "restore":
            self.run_phase(Phase("all" if self.batch else "before"))
            self.compare("expected_strings" if self.batch else "expected_before_restore_strings")
            return
        if after == "NO_RESTORE":
            self.run_phase(Phase("before"))
            self.compare("expected_before_restore_strings")
            return
        sinks = self.program["sinks"]
        before = {sink["name"]: sink["expected_before_restore_strings"] or [] for sink in sinks}
        path = self.run_phase(Phase("before", stays_open=True, savepoint=True, expected=before))
        self.compare("expected_before_restore_strings")
        for option in (self.program["config"].get("table.exec.state.ttl"), *_hinted_ttls(self.program)):
            if option:
                self.clock.advance(_millis(option) + 1000)
        after_rows = {sink["name"]: sink["expected_strings"] for sink in sinks}
        endless = after == "INFINITE"
        self.run_phase(Phase("after", stays_open=endless, path=path, expected=after_rows if endless else {}))
        self.compare("expected_strings")


def _hinted_ttls(program: dict[str, Any]) -> list[str]:
    texts = [step.get("sql") or "" for step in program["run"]]
    return [found for text in texts for hint in re.findall(r"STATE_TTL\((.*?)\)", text)
            for found in re.findall(r"=\s*'([^']+)'", hint)]  # fmt: skip


def _millis(text: str) -> int:
    number, unit = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower()).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS.get(unit or "ms", _UNITS.get((unit or "ms")[:1], 1))


def _difference(given: list[str], wanted: list[str]) -> str:
    surplus, missing = Counter(given) - Counter(wanted), Counter(wanted) - Counter(given)
    lines = [f"  surplus {text}" for text in surplus.elements()][:12]
    return "\n".join([*lines, *[f"  missing {text}" for text in missing.elements()][:12]])


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error).strip() else ''}"


# ---- all of them


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise ``TimeoutError`` after some time, wherever the program is."""

    def stop(signum: int, frame: Any) -> None:
        raise TimeoutError(f"takes longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def tried(program: dict[str, Any], runner: dict[str, Any], seconds: int) -> tuple[str, str, str]:
    """Run a program; return its outcome (``ok``, ``wrong``, ``error``), a line about it, and details."""
    several = sum(bool(one["rows_before_restore"] or one["rows_after_restore"]) for one in program["sources"]) > 1
    outcome = ("error", "was not run", "")
    for order in ORDERS if several else ORDERS[:1]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                with limited(seconds):
                    Run(program, runner, order, folder).run()
            except Failed as wrong:
                first, _, rest = str(wrong).partition("\n")
                if order == ORDERS[0]:
                    outcome = ("wrong", first, rest)
            except Exception as error:  # noqa: BLE001 - reported
                if order == ORDERS[0]:
                    frames = traceback.format_exc().splitlines()
                    return (
                        "error",
                        _short(error),
                        "\n".join(frames if len(frames) < 24 else [*frames[:2], "  ...", *frames[-20:]]),
                    )
            else:
                return "ok", "" if order == ORDERS[0] else order, ""
    return outcome


def selected(programs: list[dict[str, Any]], args: argparse.Namespace) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the programs with their runners that were asked for."""
    kinds = {"restore": ["restore"], "semantic": ["semantic"], "batch": ["compiled-plan"]}
    wanted = kinds[args.kind] if args.kind else ["restore", "semantic", "compiled-plan"]
    pairs = []
    for program in programs:
        name = f"{program['class'].rpartition('.')[2]}.{program['field']}"
        if args.filter and not any(text.lower() in name.lower() for text in args.filter):
            continue
        if args.skip and any(text.lower() in name.lower() for text in args.skip):
            continue
        pairs += [(program, runner) for runner in program["runners"] if runner["kind"] in wanted]
    return pairs


def main() -> int:
    """Run what is selected, and summarize it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--filter", action="append", help="part of Class.FIELD; may be repeated")
    parser.add_argument("--skip", action="append", help="part of Class.FIELD to leave out")
    parser.add_argument("--kind", choices=("restore", "semantic", "batch"))
    parser.add_argument("--seconds", type=int, default=20, help="limit per program")
    parser.add_argument("--list", action="store_true", help="list what is selected")
    parser.add_argument("--verbose", "-v", action="store_true", help="details of each failure, and statements")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th program")
    parser.add_argument("--json", type=Path, help="write the outcomes here")
    args = parser.parse_args()
    programs = json.loads(args.path.read_text())["programs"]
    logging.disable(logging.CRITICAL)
    pairs = selected(programs, args)
    index, count = map(int, args.shard.split("/"))
    pairs = pairs[index::count]
    by_class: dict[str, Counter[str]] = defaultdict(Counter)
    texts: dict[str, list[str]] = defaultdict(list)
    outcomes = {}
    begin = time.monotonic()
    for program, runner in pairs:
        short = program["class"].rpartition(".")[2]
        name = f"{short}.{program['field']} [{runner['kind']}]"
        if args.list:
            print(name)
            continue
        outcome, line, details = tried(program, runner, args.seconds)
        outcomes[name] = (outcome, line)
        by_class[short][outcome] += 1
        if outcome != "ok":
            texts[f"{outcome}: {re.sub(r'[0-9]+', 'N', line)[:160]}"].append(name)
        if outcome != "ok" or args.verbose:
            print(f"{outcome:5} {name} {line}")
        if args.verbose and outcome != "ok":
            for step in program["run"]:
                print("   ", step.get("sql") or step.get("statements") or step.get("sql_equivalent"))
            print(details)
        sys.stdout.flush()
    if args.list:
        return 0
    summarize(by_class, texts, time.monotonic() - begin)
    if args.json:
        args.json.write_text(json.dumps(outcomes, indent=1))
    return 0


def summarize(by_class: dict[str, Counter[str]], texts: dict[str, list[str]], seconds: float) -> None:
    """Print the shares by class, and the failures by text."""
    print("\n== by class")
    total: Counter[str] = Counter()
    for short in sorted(by_class):
        counts = by_class[short]
        total += counts
        print(f"{counts['ok']:4} of {counts.total():4} {short}")
    print("\n== by failure")
    for text, names in sorted(texts.items(), key=lambda item: -len(item[1]))[:60]:
        print(f"{len(names):4} {text}   e.g. {names[0]}")
    print(f"\n{total['ok']} of {total.total()} right, {total['wrong']} wrong, {total['error']} errors; {seconds:.0f} s")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    raise SystemExit(main())
