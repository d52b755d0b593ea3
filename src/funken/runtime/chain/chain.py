"""The operators of one subtask, wired output to input: one call per operator and block.

A chain is a tree: the head takes what the gate (or the source) gives; every operator's output goes to the operators
chained to it and to the writers of the edges that leave it, main and side outputs apart.
"""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from funken.checkpoint.restart_strategy import fault_of
from funken.columnar.block import Block, RowBlock
from funken.dataclass import dataclass
from funken.errors import FunkenError, JobExecutionError, OperatorFailed, StateTooLarge, TaskLost, without_own_frames
from funken.ids import MAX_WATERMARK, Millis, OperatorId
from funken.io.shapes import record_repr
from funken.metrics.registry import MetricGroup
from funken.operators.base import Operator, OperatorContext, Output, Timestamps, Values
from funken.operators.codegen import add_frames, step_at
from funken.operators.stateless import MapLogic, UserFunctionOperator
from funken.operators.units import watch_units
from funken.operators.user_functions import TaskTime, hint_of, traits_of
from funken.plan.nodes import Node, wants_columns
from funken.plan.physical import Edge, Vertex
from funken.runtime.chain.fused import FusedOperators, give_loops
from funken.runtime.chain.keys_and_states import (
    comparison_of_inputs,
    comparison_of_keys,
    comparison_with_fields,
    warn_of_new_names,
)
from funken.runtime.exchange.writers import HashWriter
from funken.runtime.messages import CoordinatorEvent, OperatorWarning, RecordCounts, TaskEvent, TaskFailed, TaskId
from funken.runtime.process import raised_by_signal
from funken.runtime.settings import TaskSettings
from funken.state.backend import HashMapBackend, StateBackend, StateSettings
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import key_groups_of
from funken.state.rocksdb.backend import RocksDBBackend, TaskDatabases
from funken.timing.clock import Clock
from funken.timing.timers import InternalTimerService
from funken.types.copying import can_change, copies_of

Emit = Callable[[Values, Timestamps], None]
EmitBlock = Callable[[Block], None]


@dataclass(slots=True)
class EdgeOutput:
    """An outgoing edge as a chain calls it, whether exchange or local; ``records``: how many the edge has taken."""

    edge: Edge
    emit: Emit
    emit_block: EmitBlock
    watermark: Callable[[int], None]
    idle: Callable[[bool], None]
    barrier: Callable[[int, bytes, Any], None]
    end: Callable[[bool], None]
    flush: Callable[[], None]
    latency: Callable[[int, float], None]
    round: Callable[[int], None]
    records: Callable[[], int]
    writer: HashWriter | None = None


def _discard(values: Values, timestamps: Timestamps) -> None:
    """Discard a block that has no consumer."""


def _in_rows(emit: Emit) -> EmitBlock:
    """Return a function that takes blocks for an operator that takes rows."""
    return lambda block: emit(*block.rows())


@dataclass(frozen=True)
class _Taker:
    """A consumer of an output's blocks: an operator, another chain of the task, or a writer."""

    emit: Emit
    emit_block: EmitBlock
    changes: bool
    """True if it may change the records."""
    columns: bool
    """True if it is better off with columns."""
    keeps: bool = False
    """True if it keeps them as they are: a writer does until they are pickled."""


def _share_out(takers: list[_Taker], kept: bool, reuse: bool) -> Emit:
    """Return a function that gives a block to every consumer, so that none sees another one's changes of the records.

    A taker that may change them gets copies if the operator keeps them (``kept``), a writer has them, or others are yet to
    take them.
    """
    if not takers:
        return _discard
    kept = kept or any(taker.keeps for taker in takers)
    last = len(takers) - 1
    copies = [taker.changes and (kept or position < last) for position, taker in enumerate(takers)]
    if reuse or not any(copies):
        every: Emit = _all([taker.emit for taker in takers])
        return every
    pairs = [(taker.emit, copied) for taker, copied in zip(takers, copies, strict=True)]

    def emit_all(values: Values, timestamps: Timestamps) -> None:
        changeable = can_change(values)
        for emit, copied in pairs:
            emit(copies_of(values) if changeable and copied else values, timestamps)

    return emit_all


def _share_out_blocks(takers: list[_Taker], emit: Emit) -> EmitBlock:
    """Return a function that gives columns to all consumers as they are; rows go to ``emit``."""
    every: EmitBlock = _all([taker.emit_block for taker in takers])

    def emit_block(block: Block) -> None:
        if type(block) is RowBlock:
            emit(block.values, block.timestamps)
        else:
            every(block)

    return emit_block


def _all(calls: list[Any]) -> Any:
    """Combine calls into one; a single one is returned as it is."""
    if len(calls) == 1:
        return calls[0]

    def call_all(*arguments: Any) -> None:
        for call in calls:
            call(*arguments)

    return call_all


class _Emitted:
    """Numbers of records from an operator to its chained consumers, by side; counted once per block."""

    __slots__ = ("sides",)

    def __init__(self) -> None:
        self.sides: dict[str | None, int] = {None: 0}

    def count(self, output: Output) -> None:
        """Count the records that go through an output from now on."""
        sides, emit, emit_block, emit_side = self.sides, output.emit, output.emit_block, output.emit_side

        def counted(values: Values, timestamps: Timestamps) -> None:
            sides[None] += len(values)
            emit(values, timestamps)

        def counted_block(block: Block) -> None:
            sides[None] += block.records
            emit_block(block)

        def counted_side(tag: str, values: Values, timestamps: Timestamps) -> None:
            sides[tag] = sides.get(tag, 0) + len(values)
            emit_side(tag, values, timestamps)

        output.emit, output.emit_block, output.emit_side = counted, counted_block, counted_side


class OperatorChain:
    """The operators of one vertex, one subtask."""

    def __init__(
        self, vertex: Vertex, contexts: dict[OperatorId, OperatorContext], operators: dict[OperatorId, Operator],
        ends: list[EdgeOutput],
    ) -> None:  # fmt: skip
        self.vertex = vertex
        self.operators = operators
        self._order = [operators[node.id] for node in vertex.nodes]
        #: Hot: asked once per block; most operators wait for no time
        self._timed = [operator for operator in self._order if type(operator).next_tick is not Operator.next_tick]
        self.head = self._order[0]
        self._outputs = ends
        children: dict[OperatorId, list[tuple[str | None, Operator]]] = {node.id: [] for node in vertex.nodes}
        for node in vertex.nodes[1:]:
            children[node.inputs[0].upstream].append((node.inputs[0].side, operators[node.id]))
        #: what takes the place of an operator's ``process``: the loop of the run that it begins
        self._process = {operator: operator.process for operator in self._order}
        #: of the operators that others are chained to; of the last ones the edges count
        self._emitted = {number: _Emitted() for number, chained in children.items() if chained}
        for run in vertex.fused:
            writer = next((end.writer for end in ends if end.edge.id == run.edge), None)
            found = [operators[number] for number in run.operators]
            loop = FusedOperators(cast(list[UserFunctionOperator], found), writer, contexts[run.operators[0]].inlining)
            self._process[found[0]] = loop.process
        for end in ends:  # that of a run, too: records which were in flight are given to the writer itself
            if end.writer is not None:
                give_loops(end.writer, operators[end.edge.source_node], contexts[end.edge.source_node].inlining)
        for node in vertex.nodes:
            leaving = [end for end in ends if end.edge.source_node == node.id]
            output = self._wire(children[node.id], leaving, operators[node.id], contexts[node.id].object_reuse)
            if node.id in self._emitted:
                self._emitted[node.id].count(output)
            operators[node.id].setup(contexts[node.id], output)
        self._first = self._takes_block(self.head)
        self._inputs_closed: set[int] = set()
        #: checks of the first blocks, until they have seen enough
        self._compare: Callable[[int, Block], bool] | None = None
        self._units: Callable[[Block], bool] | None = None
        #: whether no operator calls a function per record, unless a kernel cannot compute a block
        self.columnar = all(operator.columnar for operator in self._order)
        #: whether some do so, and some do not
        self.mixed = not self.columnar and any(operator.columnar for operator in self._order)

    def _wire(
        self, children: list[tuple[str | None, Operator]], leaving: list[EdgeOutput], operator: Operator, reuse: bool
    ) -> Output:
        takers: dict[str | None, list[_Taker]] = {None: []}
        for side, child in children:
            taker = _Taker(self._process[child], self._takes_block(child), child.changes_records, child.columnar)
            takers.setdefault(side, []).append(taker)
        for end in leaving:
            columns = end.edge.local or wants_columns(end.edge.partitioning)
            taker = _Taker(end.emit, end.emit_block, end.edge.local, columns, not end.edge.local)
            takers.setdefault(end.edge.side, []).append(taker)
        output, main = Output(), takers.pop(None)
        output.emit = _share_out(main, operator.keeps_output, reuse)
        output.emit_block = _share_out_blocks(main, output.emit)
        output.takes_columns = any(taker.columns for taker in main)
        routes = {side: _share_out(found, False, reuse) for side, found in takers.items()}

        def emit_side(tag: str, values: Values, timestamps: Timestamps) -> None:
            if tag not in routes:
                routes[tag] = _discard
                policy = operator.context.on_error
                if policy is not None and policy.side_output == tag:
                    return  # these are counted, and that is said
                operator.context.warn(
                    f"side output {tag}",
                    f"it writes to its side output {tag!r}, which no stream reads, so these records are dropped. Read them with "
                    f"get_side_output(OutputTag({tag!r})).",
                )
            routes[tag](values, timestamps)

        output.emit_side = emit_side
        output.watermark = _all([op.watermark for _, op in children] + [end.watermark for end in leaving])
        output.idle = _all([op.idle for _, op in children] + [end.idle for end in leaving])
        return output

    def _takes_block(self, operator: Operator) -> EmitBlock:
        by_block = operator.columnar or operator.takes_fields
        return operator.process_block if by_block else _in_rows(self._process[operator])

    def open(self) -> None:
        """Open all operators, the last one first, as Flink does."""
        for operator in reversed(self._order):
            operator.open()
            warn_of_new_names(operator.context)
        traits = traits_of(self.vertex.nodes[0].spec)
        self._units = watch_units(self.head.context, traits.lengths)
        selectors = [each for each in traits.keys if each is not None]
        if len(selectors) > 1:
            self._compare = comparison_of_inputs(self.head.context, selectors)
        if selectors:
            first, compare = self._first, comparison_of_keys(self.head.context, selectors[0])
            missing = comparison_with_fields(self.head.context, selectors[0])

            def take_first(block: Block) -> None:
                self._first = first
                missing(block)
                if compare is not None:
                    compare(block)
                first(block)

            self._first = take_first

    def process(self, index: int, block: Block) -> None:
        """Hand a block to the head."""
        if self._units is not None and self._units(block):
            self._units = None
        if self._compare is not None and self._compare(index, block):
            self._compare = None
        if index == 0:
            self._first(block)
        else:
            self.head.process_second_block(block)

    def watermark(self, watermark: int) -> None:
        """Hand a watermark to the head."""
        self.head.watermark(watermark)

    def watermark_input(self, index: int, watermark: int) -> None:
        """Pass one input's watermark to the head."""
        self.head.watermark_input(index, watermark)

    def idle(self, idle: bool) -> None:
        """Pass the idle status to the head."""
        self.head.idle(idle)

    def end_input(self, index: int) -> None:
        """Notify the head that an input ended."""
        self._inputs_closed.add(index)
        self.head.end_input(index)

    def drain(self, inputs: int) -> None:
        """Let every operator emit its buffered records, as if its ``inputs`` had ended; the edges stay open."""
        for index in range(inputs):
            if index not in self._inputs_closed:
                self.end_input(index)
        for operator in self._order:
            self._tick(operator, operator.context.processing_time())
            if operator is not self.head:
                operator.end_input(0)
            operator.finish()

    def finish(self) -> None:
        """End the chain: every operator emits its buffered records, then the edges end."""
        self.drain(0)
        for end in self._outputs:
            end.end(False)

    def pause(self) -> None:
        """End the edges as they are: there is more to come in another micro-batch."""
        for operator in self._order:
            operator.pause()
        for end in self._outputs:
            end.end(True)

    def awaits_results(self) -> bool:
        """Return True if results of some operator come later by themselves."""
        return any(operator.awaits_results() for operator in self._order)

    def next_tick(self) -> int | None:
        """Return the time at which the first operator is due for a tick."""
        due: int | None = None
        for operator in self._timed:
            at = operator.next_tick()
            if at is not None and (due is None or at < due):
                due = at
        return due

    def tick(self, now: int) -> None:
        """Tick the operators that are due."""
        for operator in self._timed:
            self._tick(operator, now)

    @staticmethod
    def _tick(operator: Operator, now: int) -> None:
        at = operator.next_tick()
        if at is not None and at <= now:
            operator.tick(now)

    def handle_operator_event(self, number: OperatorId, payload: Any) -> None:
        """Hand an event of a coordinator to its operator, if that is in the chain."""
        operator = self.operators.get(number)
        if operator is not None:
            operator.handle_operator_event(payload)

    def notify_checkpoint_complete(self, checkpoint: int) -> None:
        """Notify every operator that a checkpoint is complete."""
        for operator in self._order:
            operator.notify_checkpoint_complete(checkpoint)

    def notify_checkpoint_aborted(self, checkpoint: int) -> None:
        """Notify every operator that a checkpoint is aborted."""
        for operator in self._order:
            operator.notify_checkpoint_aborted(checkpoint)

    def record_counts(self, read: int) -> dict[OperatorId, RecordCounts]:
        """Return the records that each operator has read and emitted, if the first one has read so many."""
        found: dict[OperatorId, RecordCounts] = {}
        for node in self.vertex.nodes:
            if node is not self.vertex.nodes[0]:
                (given,) = node.inputs
                read = self._emitted[given.upstream].sides.get(given.side, 0)
            found[node.id] = RecordCounts(read, self._emitted_by(node.id))
        for run in self.vertex.fused:
            found |= self._within(run.operators, found)
        return found

    def _emitted_by(self, operator: OperatorId) -> int:
        """Count each record once, to however many readers it goes."""
        if operator in self._emitted:
            return sum(self._emitted[operator].sides.values())
        sides: dict[str | None, int] = {}
        for end in self._outputs:
            if end.edge.source_node == operator:
                sides[end.edge.side] = max(sides.get(end.edge.side, 0), end.records())
        return sum(sides.values())

    def _within(
        self, run: tuple[OperatorId, ...], found: dict[OperatorId, RecordCounts]
    ) -> dict[OperatorId, RecordCounts]:
        """Return the counts of operators that run as one loop, of which the two ends are counted.

        A map emits as many records as it reads, which gives all others but those between two that do not. To count what a
        filter drops costs 10 ns for each, a third of a loop of two inlined filters, so these are ``None``.
        """
        keeps = [isinstance(self.operators[number], MapLogic) for number in run]
        read, emitted = found[run[0]].read, found[run[-1]].emitted
        counts: dict[OperatorId, RecordCounts] = {}
        for place, number in enumerate(run):
            after = read if all(keeps[: place + 1]) else emitted if all(keeps[place + 1 :]) else None
            before = read if not place else counts[run[place - 1]].emitted
            counts[number] = RecordCounts(before, after)
        return counts

    def flush(self) -> None:
        """Flush the edges."""
        for end in self._outputs:
            end.flush()

    def close(self) -> list[BaseException]:
        """Close all operators; return their exceptions, the first one first."""
        raised: list[BaseException] = []
        for operator in self._order:
            try:
                operator.close()
            except BaseException as error:  # noqa: BLE001 - every operator is closed, whatever another raised
                raised.append(error)
        return raised


# ---- Failure attribution: operator, subtask and record of an exception, read from the frames it passed through.
#
# Nothing of this costs anything until something is raised. Operators take part by the names of their locals:
# ``value`` is the record at hand, and ``rest`` the iterator of a comprehension over a block, which from Python 3.12
# on has no frame of its own, and takes its variable with it when something is raised.


_PACKAGE = str(Path(__file__).parents[2]) + os.sep
_LIST_ITERATOR: type = type(iter([]))


class FailureAttribution:
    """Turns an exception of user code into ``OperatorFailed``; no cost per record."""

    __slots__ = ("_subtask",)

    def __init__(self, subtask: int) -> None:
        self._subtask = subtask

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self.attribute(error)

    def attribute(self, error: BaseException) -> None:
        """Raise ``OperatorFailed`` from an error of user code, or return: the error is to be raised as it is."""
        if is_failure(error) and not isinstance(error, JobExecutionError):
            raise attribute_failure(error, self._subtask) from error


def is_failure(error: BaseException) -> bool:
    """Return True if user code has failed; else the error ends the job or a generator, and is to be raised as it is.

    A signal does, and an interruption. ``GeneratorExit`` is what closes a generator of the engine, or what a function has raised.
    """
    if not isinstance(error, GeneratorExit):
        return not isinstance(error, KeyboardInterrupt) and not raised_by_signal(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and not trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def attribute_failure(error: BaseException, subtask: int) -> JobExecutionError:
    """Find in which operator, and at which record, an exception was raised, from the frames it passed through."""
    context, record, found, at_hand = None, "", error.__traceback__, None
    while found is not None:
        frame = found.tb_frame
        owner = frame.f_locals.get("self")
        if isinstance(owner, FusedOperators):
            owner = owner.last
        if isinstance(owner, Operator) and hasattr(owner, "context"):
            context = owner.context
            record = ""
        step = step_at(found)
        if step is not None:
            context = step.operator.context
            at_hand = step.record_in(frame.f_locals)
            record = f" at the record {record_repr(at_hand)}"
        if context is not None and not record and _is_ours(frame.f_code.co_filename):
            for at_hand in _current_record(frame.f_locals):
                record = f" at the record {record_repr(at_hand)}"
        found = found.tb_next
    add_frames(error)
    text = "".join(traceback.format_exception(error))
    operator = None if context is None else context.operator
    where = f"operator {operator!r} (subtask {subtask})" if operator else f"subtask {subtask}"
    rest = "" if isinstance(error, FunkenError) else " The traceback of the function follows."
    if context is not None and "\n  File " not in without_own_frames(f"\n{text}"):
        rest = f" The operator is in {context.place}." if context.place else ""
    said = f"{type(error).__name__}: {_text(error).removesuffix('.')}"
    hint = "" if isinstance(error, FunkenError) else hint_of(error, at_hand)
    failure = OperatorFailed(f"{where} failed{record}: {said}.{' ' * bool(hint)}{hint}{rest}", operator, subtask, text)
    failure.fault = fault_of(error)
    return failure


def _current_record(names: Mapping[str, Any]) -> list[Any]:
    """Return the record that a frame is processing, if that can be read."""
    if "value" in names:
        return [names["value"]]
    rest = names.get("rest")
    if isinstance(rest, _LIST_ITERATOR):
        match rest.__reduce__():  # its position; an exhausted iterator has none
            case (_, (list(values),), int(position)) if position:
                return [values[position - 1]]
    return []


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as other:  # noqa: BLE001 - the error to report is the first one
        return f"<its text raises {type(other).__name__}>"


def _is_ours(filename: str) -> bool:
    return "funken" in filename and "operators" in filename


def failure_event(task: TaskId, error: BaseException) -> TaskFailed:
    """Make the report of a failure; an error that cannot travel is replaced by its text."""
    if not isinstance(error, JobExecutionError):
        error = attribute_failure(error, task.subtask)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever the user's class raises when it is pickled
        fault = error.fault
        error = JobExecutionError(str(error))
        error.fault = fault
    return TaskFailed(task, error=error, secondary=isinstance(error, TaskLost))


# ---- The chain of a subtask that had finished when the checkpoint was made that it starts from: it does not run
# again.
#
# No user function is opened. It only ends its output edges, once its inputs have ended: so no subtask downstream
# ends before the job has begun. Its state stays part of every checkpoint, for a job with another parallelism may
# need it.


class FinishedOperatorChain(OperatorChain):
    """Takes the place of the chain; its inputs only end, and no operator is called."""

    def open(self) -> None:
        """Open nothing."""

    def process(self, index: int, block: Block) -> None:
        """Refuse records: everything before a finished subtask has finished, so that they would be lost silently."""
        context = self.head.context
        raise JobExecutionError(
            f"operator {context.operator!r} (subtask {context.subtask}) had finished when the checkpoint was made that the job "
            "started from, and receives records now. This is a defect of Funken; please report it with the program."
        )

    def watermark(self, watermark: int) -> None:
        """Pass the last watermark on; the others were sent before."""
        if watermark == MAX_WATERMARK:
            for end in self._outputs:
                end.watermark(watermark)

    def _not_passed_on(self, *arguments: Any, **named: Any) -> None:
        """Ignore it: its operators have ended, or were not opened, so none is idle or holds anything back."""

    watermark_input = idle = end_input = drain = _not_passed_on
    handle_operator_event = notify_checkpoint_complete = notify_checkpoint_aborted = _not_passed_on

    def awaits_results(self) -> bool:
        """No operator has anything to come."""
        return False

    def next_tick(self) -> int | None:
        """No operator waits for anything."""
        return None

    def close(self) -> list[BaseException]:
        """Nothing was opened."""
        return []


# ---- Where the operators of one task keep their state, and how much memory the task's process may use for it.


_LOOK_MILLIS = 1000
_FREE_SHARE = 0.03
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


class TaskBackends:
    """The backends of one task, and the watch over its memory."""

    def __init__(self, settings: StateSettings, subtask: int, read: Callable[[str], str] | None = None) -> None:
        self._settings = settings
        self._databases = TaskDatabases(
            settings.memory, settings.write_buffer_ratio, settings.directory(subtask), settings.min_free_space
        )
        self._made: list[RocksDBBackend] = []
        self._contexts: list[OperatorContext] = []
        self._next_look = Millis(0)
        self._read = read or _read

    def make(self, context: OperatorContext, key_groups: range) -> StateBackend:
        """Return the backend of an operator."""
        self._contexts.append(context)
        if not self._settings.in_files:
            return HashMapBackend(tracked=context.checkpointing)
        owner = f"operator {context.operator!r} (subtask {context.subtask})"
        backend = RocksDBBackend(self._databases, context.max_parallelism, key_groups, owner)
        self._made.append(backend)
        return backend

    def close(self) -> None:
        """Close the databases and remove their files, except for snapshots that are still to be written."""
        for backend in self._made:
            backend.close()
        self._databases.close()

    # ---- memory

    def watch(self, now: int) -> None:
        """Look once in a while whether there is memory left; raises ``StateTooLarge`` before the machine swaps."""
        if self._next_look <= now and self._contexts:
            self._next_look = Millis(now + _LOOK_MILLIS)
            used = self._used()
            limit = self._settings.process_memory
            if limit:
                if used > limit:
                    raise self._too_large(f"this process uses {_mib(used)}, it may use {_mib(limit)}")
                return
            for total, free in self._machine():
                if free < total * _FREE_SHARE:
                    raise self._too_large(
                        f"of {_mib(total)} of the machine's or the container's memory {_mib(free)} are free, "
                        f"this process uses {_mib(used)}"
                    )

    def _used(self) -> int:
        with suppress(OSError, ValueError, IndexError):
            return int(self._read("/proc/self/statm").split()[1]) * _PAGE
        return 0

    def _machine(self) -> list[tuple[int, int]]:
        """Return the total and the free memory: of the machine, and of the container if there is one."""
        found = []
        with suppress(OSError, ValueError, KeyError):
            lines = dict(line.split(":", 1) for line in self._read("/proc/meminfo").splitlines() if ":" in line)
            total, free = (int(lines[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
            found.append((total, free))
        for limit, usage in _LIMITS:
            with suppress(OSError, ValueError):
                most = int(self._read(limit))  # "max", where there is none, is no number
                if found and most < found[0][0]:
                    cached = self._reclaimable(os.path.join(os.path.dirname(usage), "memory.stat"))
                    found.append((most, most - int(self._read(usage)) + cached))
        return found

    def _reclaimable(self, path: str) -> int:
        with suppress(OSError, ValueError, KeyError):
            lines = dict(line.split() for line in self._read(path).splitlines())
            prefix = "total_" if "total_inactive_file" in lines else ""
            return int(lines[f"{prefix}inactive_file"]) + int(lines[f"{prefix}active_file"])
        return 0

    def _too_large(self, fact: str) -> StateTooLarge:
        held = sorted(((_entries(context), context.operator) for context in self._contexts), reverse=True)
        entries = ", ".join(f"{name!r} {count:,} entries" for count, name in held[:3])
        remedy = (
            "Its timers are in memory: set fewer of them, or give it more subtasks"
            if self._settings.in_files
            else "Set state.backend.type: rocksdb, which keeps state on disk, or give the job more subtasks"
        )
        return StateTooLarge(
            f"there is too little memory left for the state of operator {held[0][1]!r}: {fact}. The state of this task: "
            f"{entries}. {remedy}, or raise taskmanager.memory.process.size."
        )


def _entries(context: OperatorContext) -> int:
    """Return the numbers of slots and timers of an operator in memory."""
    timers = 0 if context.timers is None else context.timers.pending()
    tables = [] if context.keyed is None else list(context.keyed.tables)
    own = 0 if context.keyed is None else context.keyed.own_entries
    return timers + own + sum(len(table) for table in tables if isinstance(table, dict))


def _mib(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


# ---- Between a task and its operators: the context each is given, and what becomes of what it reports through it.
#
# An operator reaches its driver only by ``report(kind, payload)``; here that becomes an event with operator and
# subtask.


class OperatorContexts:
    """Makes the contexts of one task; ``wake`` gets its loop to look at it again."""

    def __init__(
        self, task: TaskId, settings: TaskSettings, backends: TaskBackends, clock: Clock, time: TaskTime,
        event: Callable[[TaskEvent], None], wake: Callable[[], None] | None, stable_ids: Mapping[OperatorId, str],
    ) -> None:  # fmt: skip
        self._stable_ids = stable_ids
        self._task = task
        self._settings = settings
        self._backends = backends
        self._clock = clock
        self._time = time
        self._report = event
        self._wake = wake
        #: the metrics that functions of the user count, by operator
        self.metrics: dict[int, MetricGroup] = {}

    def make(self, vertex: Vertex, node: Node) -> OperatorContext:
        """Make the context of one operator."""
        subtask, width, limit = self._task.subtask, vertex.parallelism, vertex.max_parallelism
        checkpoints = self._settings.checkpoints
        self.metrics[node.id] = metrics = MetricGroup(self._clock.monotonic)
        context = OperatorContext(
            operator=node.name,
            subtask=subtask,
            parallelism=width,
            max_parallelism=limit,
            processing_time=self._clock.now,
            monotonic=self._clock.monotonic,
            attempt=self._settings.attempt,
            job_id=self._settings.job_id,
            batch=self._settings.batch,
            pausing=self._settings.pausing,
            object_reuse=self._settings.object_reuse,
            inlining=self._settings.inlining,
            auto_watermark_interval=self._settings.auto_watermark_interval,
            job_parameters=self._settings.job_parameters,
            checkpointing=checkpoints is not None,
            operator_uid=self._stable_ids[node.id],
            place=node.place,
            restored_checkpoint_id=None if checkpoints is None else checkpoints.restored_checkpoint_id,
            metrics=metrics,
            report=lambda payload, output: self._pass_on(node, payload, output),
            warn=lambda kind, text: self._report(OperatorWarning(self._task, node.id, subtask, kind, text)),
            wake=self._wake,
            on_error=node.on_error,
        )
        context.next_time = self._time.read
        if node.keyed:
            groups, time = key_groups_of(subtask, limit, width), self._time
            backend, copies = self._backends.make(context, groups), not self._settings.object_reuse
            context.keyed = KeyedStateStore(limit, groups, lambda: time.latest, backend, copies)
            context.timers = InternalTimerService(self._clock.now, limit, groups, context.checkpointing)
        return context

    def _pass_on(self, node: Node, payload: Any, output: bool) -> None:
        self._report(CoordinatorEvent(self._task, node.id, self._task.subtask, payload, output))
