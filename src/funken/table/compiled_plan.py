"""COMPILE PLAN and EXECUTE PLAN: a plan in a file, whose operators keep their uids; and the state that a changed query keeps.

A compiled plan has the text of its INSERTs, the definitions of their tables, and the uid of every operator. To execute it is to
plan the text anew: what is planned has to be the same operators, and these get the uids of the file. So their state is found
again by a version of Funken that would call them otherwise.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from funken.errors import CheckpointIncompatible, InvalidProgram
from funken.io.shapes import dumps_by_value
from funken.table.logical import LogicalSink, LogicalStream, walk

if TYPE_CHECKING:
    from funken.table.environment import TableEnvironment
    from funken.table.result import TableResult

VERSION = 1


def _not_kept(error: Exception) -> InvalidProgram:
    return InvalidProgram(
        f"compile_plan() cannot keep a function or value of the program ({error}). Make it in the function's open()."
    )


@dataclass(frozen=True)
class PlanOperator:
    """An operator of a compiled plan: ``text`` is its line of EXPLAIN."""

    operator: str
    part: str
    uid: str
    text: str = ""

    def __str__(self) -> str:
        return self.text or self.operator


@dataclass
class PlanUids:
    """Assigns uids to operators, in the order in which a plan is translated: pinned ones, or new ones that it notes."""

    pinned: Sequence[PlanOperator] | None = None
    operators: list[PlanOperator] = field(default_factory=list)

    def uid(self, node: Any, part: str, make: Callable[[], str]) -> str:
        """Return the uid of the next operator."""
        from funken.table.rules.printing import line  # noqa: PLC0415 - loads the planner

        name = type(node).__name__.removeprefix("Exec")
        place = len(self.operators)
        if self.pinned is None:
            found = PlanOperator(name, part, make(), line(node))
        else:
            wanted = self.pinned[place] if place < len(self.pinned) else None
            if wanted is None or (wanted.operator, wanted.part) != (name, part):
                raise _changed(place, wanted, line(node))
            found = wanted
        self.operators.append(found)
        return found.uid

    def finish(self) -> None:
        """Refuse a plan that has fewer operators than those that are pinned."""
        if self.pinned is not None and len(self.operators) < len(self.pinned):
            raise _changed(len(self.operators), self.pinned[len(self.operators)], "")


def _operators(environment: TableEnvironment, sinks: Sequence[LogicalSink]) -> list[PlanOperator]:
    uids = PlanUids()
    environment.translate(sinks, environment.fresh_environment(), uids)
    return uids.operators


def _changed(place: int, wanted: PlanOperator | None, found: str) -> CheckpointIncompatible:
    before, now = (str(wanted) if wanted is not None else "the end of the plan"), found or "the end of the plan"
    return CheckpointIncompatible(
        f"the compiled plan no longer fits its query: operator {place + 1} was {before}, and is now {now}. A table of the query "
        "has changed, or the planner. Restore the table, or compile the plan anew: then state of operators that are not the "
        "same any more is lost."
    )


class CompiledPlan:
    """A plan whose operators have fixed uids.

    >>> from funken.table.environment import TableEnvironment
    >>> tables = TableEnvironment.create()
    >>> _ = tables.execute_sql("CREATE TABLE t (n INT) WITH ('connector' = 'print')")
    >>> plan = CompiledPlan.of(tables, ["INSERT INTO t VALUES (1), (2)"])
    >>> print(plan.operators[-1])
    Sink(table=[default_catalog.default_database.t], fields=[n])
    """

    def __init__(
        self,
        environment: TableEnvironment,
        statements: Sequence[str],
        tables: dict[str, str],
        operators: Sequence[PlanOperator],
        pickled: str = "",
    ) -> None:
        self._environment = environment
        self.statements = tuple(statements)
        self.tables = tables
        self.operators = tuple(operators)
        self.pickled = pickled
        """The plan of a pipeline of the Table API, which has no text; empty if ``statements`` are the plan."""

    @staticmethod
    def of(environment: TableEnvironment, statements: Sequence[str]) -> CompiledPlan:
        """Compile INSERTs into one job."""
        from funken.table.execution import definitions_of, sinks_of  # noqa: PLC0415 - loads the parser

        sinks = [sink for text in statements for sink in sinks_of(environment, text)]
        operators = _operators(environment, sinks)
        return CompiledPlan(environment, statements, definitions_of(environment, sinks), operators)

    @staticmethod
    def of_pipeline(environment: TableEnvironment, sink: LogicalSink) -> CompiledPlan:
        """Compile a pipeline of the Table API; its plan is pickled, so read only plans that you trust.

        Raises ``InvalidProgram`` for one that reads a stream of the program, which belongs to this process.
        """
        if any(isinstance(node, LogicalStream) and node.source.environment is not None for node in walk(sink)):
            raise InvalidProgram(
                "compile_plan() cannot keep a table that reads a DataStream: the stream belongs to this program. Compile a table "
                "that reads connectors, or execute the pipeline."
            )
        pickled = base64.b64encode(dumps_by_value(sink, _not_kept)).decode()
        return CompiledPlan(environment, (), {}, _operators(environment, [sink]), pickled)

    @staticmethod
    def from_json(environment: TableEnvironment, text: str) -> CompiledPlan:
        """Read a plan."""
        try:
            found = json.loads(text)
            version = found["funkenPlan"]
            operators = [PlanOperator(**each) for each in found["operators"]]
            statements, tables, pickled = found["statements"], found["tables"], found.get("pickled", "")
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidProgram(
                f"this is no compiled plan of Funken: {error!r}. Plans are made by COMPILE PLAN; those of Flink cannot be read, "
                "but their queries can be compiled here."
            ) from None
        if version > VERSION:
            raise InvalidProgram(
                f"the compiled plan is of version {version}; this Funken reads versions up to {VERSION}."
            )
        return CompiledPlan(environment, statements, tables, operators, pickled)

    @staticmethod
    def from_file(environment: TableEnvironment, file: str) -> CompiledPlan:
        """Read the plan in a file."""
        path = Path(file.removeprefix("file://"))
        if not path.is_file():
            raise InvalidProgram(
                f"there is no compiled plan at {file!r}. COMPILE PLAN '{file}' FOR INSERT .. makes one."
            )
        return CompiledPlan.from_json(environment, path.read_text())

    def as_json_string(self) -> str:
        """Return the plan as JSON."""
        found = {
            "funkenPlan": VERSION,
            "statements": self.statements,
            "tables": self.tables,
            "operators": [asdict(each) for each in self.operators],
        } | ({"pickled": self.pickled} if self.pickled else {})
        return json.dumps(found, indent=2)

    def print_json_string(self) -> None:
        """Print the plan as JSON."""
        print(self.as_json_string())  # noqa: T201 - that is what it is for

    def write_to_file(self, file: str, ignore_if_exists: bool = False) -> None:
        """Write the plan to a file that is not there yet."""
        path = Path(str(file).removeprefix("file://"))
        if path.exists():
            if ignore_if_exists:
                return
            if not self._environment.get_config().option("table.plan.force-recompile"):
                raise InvalidProgram(
                    f"Cannot overwrite the plan file '{file}'. Either manually remove the file or, if you're debugging your job, "
                    "set the option 'table.plan.force-recompile' to true."
                )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.as_json_string())

    def sinks(self) -> list[LogicalSink]:
        """Return the INSERTs, planned against the catalog; tables that it has not are those of the plan."""
        from funken.table.execution import sinks_of  # noqa: PLC0415 - loads the parser

        if self.pickled:
            return [pickle.loads(base64.b64decode(self.pickled))]
        environment = self._environment
        for path, text in self.tables.items():
            if environment.catalogs.find("table", json.loads(path)) is None:
                environment.execute_sql(text)
        return [sink for text in self.statements for sink in sinks_of(environment, text)]

    def explain(self, *extra_details: Any) -> str:
        """Return the plans as text."""
        from funken.table.execution import explained  # noqa: PLC0415 - loads the parser

        return explained(self._environment, self.sinks(), extra_details)

    def print_explain(self, *extra_details: Any) -> None:
        """Print the plans."""
        print(self.explain(*extra_details))  # noqa: T201 - that is what it is for

    def execute(self) -> TableResult:
        """Submit the job."""
        return self._environment.insert(self.sinks(), uids=PlanUids(self.operators))


@dataclass(frozen=True)
class PlanReference:
    """A reference to a compiled plan: a file, or a text."""

    file: str | None = None
    json: str | None = None

    @staticmethod
    def from_file(path: str) -> PlanReference:
        """Refer to a file."""
        return PlanReference(file=str(path))

    @staticmethod
    def from_json_string(json_string: str) -> PlanReference:
        """Refer to a text."""
        return PlanReference(json=json_string)


@dataclass(frozen=True)
class StateChanges:
    """The state of a savepoint per operator of a job: names and uids of operators kept, new, and gone."""

    kept: tuple[str, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"keeps its state: {name}" for name in self.kept]
        lines += [f"begins without state: {name}" for name in self.new]
        lines += [f"state is not used any more: {name}" for name in self.gone]
        return "\n".join(lines or ["no operator has state"])


def state_changes(graph: Iterable[Any], uri: str) -> StateChanges:
    """Compare the operators of a job with those of a savepoint or checkpoint."""
    from funken.checkpoint.store.completed import open_checkpoint  # noqa: PLC0415 - only where a job starts from state

    entries = {entry.id: entry for entry in open_checkpoint(uri).manifest.operators if entry.stateful}
    nodes = {node.uid: node for node in graph if node.uid is not None}
    kept = [f"{nodes[uid].name} ({uid})" for uid in entries if uid in nodes]
    new = [f"{node.name} ({uid})" for uid, node in nodes.items() if uid not in entries and node.keyed]
    gone = [f"{entry.name} ({uid})" for uid, entry in entries.items() if uid not in nodes]
    return StateChanges(tuple(kept), tuple(new), tuple(gone))


def check_state(graph: Iterable[Any], uri: str, allowed: bool) -> StateChanges:
    """Refuse to start from a savepoint with state that the query has no operator for, before anything has started."""
    found = state_changes(graph, uri)
    if found.gone and not allowed:
        raise CheckpointIncompatible(
            f"the query has no operator for some of the state in {uri}; it was another query, or is planned otherwise:\n{found}\n"
            "Execute the compiled plan of the former query, or start without this state: set "
            "'execution.state-recovery.ignore-unclaimed-state' to true."
        )
    return found
