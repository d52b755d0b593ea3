"""The way of a block through the kernels, and the one place where it falls back to rows.

A block is computed in columns only if it is columns, every function of the computation still is what was traced, and the kernels
can compute this block with Python's result. If any of it does not hold, a ``ColumnPath`` returns ``None``, nothing has been
changed or emitted, and the caller takes ``block.rows()`` through the record path.

A function that can be read is not always faster on columns: a block of a few records pays for each kernel, and some kernels
call Python for each value. So both ways are timed. For the first blocks, and ever fewer later ones, the function itself is
called with some of the records as well, and its results are compared. A function with state takes each block one way only,
and is timed on it. The watches decide from block lengths and seconds alone; the operators compute, compare and read the clock.
"""

from __future__ import annotations

import enum
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

import numpy as np

from funken.columnar.block import Block, RowBlock
from funken.columnar.calling import all_same, same
from funken.columnar.expressions import noted
from funken.columnar.kernels.columns import Column, Columns, FallBackToRows, KernelFault, joined, packed
from funken.columnar.records import NOT_READ
from funken.columnar.stateful.changes import TracedState
from funken.columnar.tracing import Traced
from funken.columnar.typed.inference import TracedFlatMap
from funken.errors import FunkenError
from funken.expr.types import Type
from funken.metrics.registry import Counter, MetricGroup
from funken.operators.base import Operator, Output
from funken.operators.stateless import UserFunctionOperator
from funken.operators.user_functions import UserFunction, declared_of

# ---- The choice of columns or rows for a function, by measured costs.


_SAMPLE = 256
"""So many records of a block, at most, go both ways."""
_EARLY, _LEAST, _SHARE = 64, 32, 10
"""So many of the first block; of later ones at least 32, and one of 2**10 records seen.

256 of each took 12 % of a job of six blocks (``benchmarks/nexmark_query.py q0``).
"""
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it modulo 1 spread evenly."""
_FIRST = 3
"""The cost of a way is known after so many blocks."""
_KEPT = 5
_MARGIN = 1.05
_AGAIN, _SELDOM = 64, 4096
_AVERAGED = 8
"""About so many blocks say how large blocks are."""
FEW = 400
"""Of blocks that have fewer records on average, the cost record by record is measured.

A block costs 0.15 to 0.6 ms, however few records it has: what 50 to 1,000 records cost one by one
(``benchmarks/keyed_functions.py``, ``benchmarks/joins_on_columns.py``).
"""


class Way(enum.Enum):
    """The way of a block's records through a function."""

    COLUMNS = "columns"
    ROWS = "rows"


class _Cost:
    """The cost of one way: the least of the last seconds per record, since other load on the machine adds to it."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=_KEPT)

    def add(self, records: int, seconds: float) -> None:
        self._last.append(seconds / records)

    def least(self) -> float | None:
        return min(self._last) if len(self._last) >= _FIRST else None


class _Trials:
    """The trials of columns that have lost: after 64 blocks, then after twice as many each time, up to 4,096.

    A trial of a function with state costs as much as 10 blocks: its state moves there and back. One per 64 blocks took 40 % of
    the time of a running reduce in blocks of 64 records.
    """

    def __init__(self) -> None:
        self._blocks, self._distance = 0, _AGAIN

    def due(self) -> bool:
        """Count a block, and return True if it is a trial."""
        self._blocks += 1
        if self._blocks < self._distance:
            return False
        self._blocks, self._distance = 0, min(2 * self._distance, _SELDOM)
        return True

    def won(self) -> None:
        """Note that columns cost less: if they lose again, the next trial comes early."""
        self._blocks, self._distance = 0, _AGAIN


class CostWatch:
    """Chooses the way of each block of one function.

    Blocks of columns cost something each, so they are told apart by the power of two of their length. A way that has lost is
    tried again, ever more seldom.

    >>> watch = CostWatch()
    >>> for _ in range(3):
    ...     watch.took(Way.COLUMNS, 100, 0.004)
    ...     watch.took(Way.ROWS, 100, 0.001)
    >>> watch.way(100).value, watch.way(100_000).value
    ('rows', 'columns')
    """

    def __init__(self) -> None:
        self._blocks = self._records = 0
        self._columns: defaultdict[int, _Cost] = defaultdict(_Cost)
        self._rows = _Cost()
        self._trials: defaultdict[int, _Trials] = defaultdict(_Trials)

    def sample(self, records: int) -> slice | None:
        """Return the part of the next block that goes both ways, each time in another place.

        It is one piece, because a piece of a block is a view: records from everywhere, which have to be taken one by one, cost
        2.7 % of a job of six blocks more (``benchmarks/nexmark_query.py q0``).

        >>> watch = CostWatch()
        >>> [part and (part.start, part.stop) for part in map(watch.sample, [10_000] * 8)]
        [(0, 64), (6160, 6192), None, (8507, 8546), None, None, None, (3236, 3314)]
        """
        before = self._blocks
        self._blocks += 1
        self._records += records
        if self._blocks & before:
            return None
        count = min(records, _EARLY if not before else max(_LEAST, min(_SAMPLE, self._records >> _SHARE)))
        start = int((records - count) * (before * _GOLDEN % 1))
        return slice(start, start + count)

    def way(self, records: int) -> Way:
        """Return the way of a block."""
        size = records.bit_length()
        on_columns, by_rows = self._columns[size].least(), self._rows.least()
        if on_columns is None or by_rows is None or on_columns <= by_rows * _MARGIN:
            if size in self._trials:
                self._trials[size].won()
            return Way.COLUMNS
        return Way.COLUMNS if self._trials[size].due() else Way.ROWS

    def took(self, way: Way, records: int, seconds: float) -> None:
        """Note the cost of a block, or a sample, one way; ``records`` is at least 1."""
        cost = self._columns[records.bit_length()] if way is Way.COLUMNS else self._rows
        cost.add(records, seconds)


class StateWatch:
    """Chooses the way of each block of a function with state, which goes one way only: the other would change the state again.

    Blocks begin on columns. If they have fewer records than ``FEW`` on average, that may cost more: some go record by record, to
    learn what that costs, and from then on the way is taken that costs less. Blocks that have grown to twice as many go on
    columns again, and so do a few after many that do not.

    >>> watch = StateWatch()
    >>> def take(records, columns, rows):
    ...     way = watch.way(records)
    ...     watch.took(way, records, columns if way is Way.COLUMNS else rows)
    ...     return way.value
    >>> [{take(50, columns=0.001, rows=rows) for _ in range(40)} for rows in (0.0001, 0.1)][0] == {"columns", "rows"}
    True
    >>> watch.in_rows
    False
    """

    def __init__(self) -> None:
        self._size = 2.0 * FEW  # the first blocks of a task are smaller
        self._columns: defaultdict[int, _Cost] = defaultdict(_Cost)
        self._rows = _Cost()
        self._trials = _Trials()
        self._left = 0
        """Number of remaining blocks of a trial."""
        self.in_rows = False
        """True if blocks go record by record, because that costs less, or to learn what it costs."""

    def way(self, records: int) -> Way:
        """Return the way of a block."""
        self._size += (records - self._size) / _AVERAGED
        on_columns, by_rows = self._cost_on_columns(), self._rows.least()
        if self._size >= (2 * FEW if self.in_rows else FEW):
            self.in_rows = False
        elif by_rows is None or on_columns is None:
            self.in_rows = by_rows is None
        elif self._left:  # of a trial, whose first block has to bring the state back
            self._left -= 1
        elif self.in_rows and on_columns <= by_rows:
            self.in_rows = False
        elif self.in_rows:
            if self._trials.due():
                self.in_rows, self._left = False, _FIRST
        else:
            self.in_rows = on_columns > by_rows * _MARGIN
            if not self.in_rows:
                self._trials.won()
        return Way.ROWS if self.in_rows else Way.COLUMNS

    def _cost_on_columns(self) -> float | None:
        """Return the cost of a record in blocks of this size, which cost no more than larger ones."""
        size = int(self._size).bit_length()
        for each in sorted(self._columns):
            cost = self._columns[each].least() if each >= size else None
            if cost is not None:
                return cost * float(2 ** (each - size))
        return None

    def took(self, way: Way, records: int, seconds: float) -> None:
        """Note the cost of a block one way; ``records`` is at least 1."""
        cost = self._columns[records.bit_length()] if way is Way.COLUMNS else self._rows
        cost.add(records, seconds)


# ---- The way itself.


T = TypeVar("T")
_SMALLEST = 64
"""Pieces of a block that are this small are not divided further."""
_MOST_REASONS, _OTHER_REASONS = 16, "others"
_FAULT = "a fault of a kernel"
_SMALL_BLOCKS, _IN_BATCH = "small blocks", "BATCH sorts records by time"
_WAITS = "it has gone over to records, and waits until going back pays"


class ColumnsDiffer(FunkenError):
    """Columns have given something else than the function that they stand for; the message says what."""


class TracedFunction:
    """A traced function; disabled for good when something the function uses has changed."""

    def __init__(self, call: UserFunction, traced: Traced | TracedFlatMap | TracedState) -> None:
        self._call, _ = declared_of(call)
        self._traced = traced
        self._given_up = False
        self.why = ""
        """Why it is disabled."""

    def ready(self) -> bool:
        """Return True if the function is as it was when it was traced; else disable it for good."""
        if not self._given_up and not self._traced.holds(self._call.target, self._call.method):
            self._given_up = True
            self.why = "the function, or a value that it uses, has changed"
        return not self._given_up

    def give_up(self) -> None:
        """Call the function for each record from now on."""
        self._given_up = True
        self.why = _FAULT


class WayCounts:
    """Counts of an operator: records that were computed on columns, and those that went to the functions, by reason.

    >>> metrics = MetricGroup()
    >>> counts = WayCounts(metrics)
    >>> counts.columns(5), counts.rows(2, "an overflow"), counts.rows(1, "an overflow")
    (None, None, None)
    >>> metrics.snapshot()
    {'numRecordsVectorized': 5, 'reason.an overflow.numRecordsPerRecord': 3}
    """

    def __init__(self, metrics: MetricGroup) -> None:
        self._metrics = metrics
        self._on_columns: Counter | None = None
        self._in_rows: dict[str, Counter] = {}

    def columns(self, records: int) -> None:
        """Count records on columns."""
        if self._on_columns is None:
            self._on_columns = self._metrics.counter("numRecordsVectorized")
        self._on_columns.inc(records)

    def rows(self, records: int, why: str) -> None:
        """Count records of which each is given to the function."""
        counter = self._in_rows.get(why)
        if counter is None:
            if len(self._in_rows) >= _MOST_REASONS:
                why = _OTHER_REASONS
            counter = self._metrics.add_group("reason", why).counter("numRecordsPerRecord")
            self._in_rows[why] = counter
        counter.inc(records)


class ColumnPath(Generic[T]):
    """Computes blocks by kernels that stand for ``functions``; partials (``Partials``) only if ``partials``.

    ``compute`` changes nothing before all that may raise ``FallBackToRows`` has been done. Unless it ``changes`` something then,
    whatever it raises is a fault of a kernel: the functions are called for each record from then on. Records are counted in the
    metrics of the operator that it is part ``of``.

    >>> from funken.expr.types import INT
    >>> from funken.columnar.block import RowBlock
    >>> from funken.columnar.kernels.columns import columns_of
    >>> lengths = ColumnPath(len)
    >>> lengths(columns_of([1, 2, 3], INT)), lengths(RowBlock([1, 2, 3]))
    (3, None)
    """

    __slots__ = ("_changes", "_compute", "_counts", "_functions", "_of", "_partials", "why")

    def __init__(
        self, compute: Callable[[Columns], T], *functions: TracedFunction, partials: bool = False, changes: bool = False,
        of: Operator | None = None,
    ) -> None:  # fmt: skip
        self._compute = compute
        self._functions = functions
        self._partials = partials
        self._changes = changes
        self._of = of
        self._counts: WayCounts | None = None
        self.why = ""

    def __call__(self, block: Block) -> T | None:
        """Return what is computed of a block, which is counted; ``None``: it has to go through in rows."""
        found = self.attempt(block)
        if found is None:
            self.left(block, self.why)
        else:
            self.took(block)
        return found

    def attempt(self, block: Block) -> T | None:
        """Return what is computed of a block; ``None``: ``why`` says why it has to go through in rows."""
        if type(block) is not Columns and not (self._partials and isinstance(block, Columns)):
            self.why = "single records arrive"
            return None
        for function in self._functions:
            if not function.ready():
                self.why = function.why
                return None
        try:
            return self._compute(block)
        except KernelFault:
            self._give_up()
        except FallBackToRows as reason:
            self.why = str(reason)
        except Exception as error:
            if self._changes:
                raise
            noted(error, "A block could not be computed: ")
            self._give_up()
        return None

    def took(self, block: Block) -> None:
        """Count a block that was computed."""
        if self._of is not None:
            self._counted().columns(len(block))

    def left(self, block: Block, why: str) -> None:
        """Count a block that goes to the functions, for a reason."""
        if self._of is not None:
            self._counted().rows(len(block), why)

    def _counted(self) -> WayCounts:
        if self._counts is None:
            assert self._of is not None
            self._counts = WayCounts(self._of.context.metrics)
        return self._counts

    def _give_up(self) -> None:
        for function in self._functions:
            function.give_up()
        self.why = _FAULT


class BlockGate:
    """Gives each block of an operator with state to its arrays, or record by record to its functions.

    State is in arrays as long as blocks are computed, and goes back to where functions find it before one is called. That costs
    something for each entry. So when entries have gone back, as many records go to the functions before arrays are tried again,
    and twice as many the next time, unless as many were computed in between.

    ``measured``: what blocks have cost decides as well (``StateWatch``). It does not where most of the work is done later, as in
    windows that are closed by time. ``in_batch``: blocks are computed in ``BATCH``, too.
    """

    def __init__(self, operator: Operator, measured: bool = True, in_batch: bool = False) -> None:
        self._operator = operator
        self._watch = StateWatch() if measured else None
        self._in_batch = in_batch
        self.closed = ""
        """Why no block is computed."""
        self.returns = 0
        """Number of times that state has left the arrays, other than by choice."""
        self._again = 0
        self._has_left = False
        self.wait = 0
        """Number of records that go to the functions before arrays are tried again."""
        #: how many were computed since the last time
        self._computed = 0

    def take(
        self, block: Block, path: ColumnPath[T], in_rows: Callable[[Block], Any], emit: Callable[[T], Any] | None = None
    ) -> None:
        """Compute a block and emit what that gives, or give it ``in_rows`` to the functions."""
        records = len(block)
        if not records:
            return
        clock, watch = self._operator.context.monotonic, self._watch
        begun, way = clock(), Way.COLUMNS if watch is None else watch.way(records)
        found, why = None, self._why_closed()
        if why:
            path.left(block, why)
        else:
            found = path(block)
        self._has_left = False
        if found is None:
            in_rows(block)
            self.wait -= records
        else:
            self._computed += records
            if emit is not None:
                emit(found)
        if watch is not None and (found is not None or way is Way.ROWS):
            watch.took(way, records, clock() - begun)

    def is_open(self) -> bool:
        """Return whether blocks are computed now."""
        return not self._why_closed()

    def _why_closed(self) -> str:
        if self.closed:
            return self.closed
        if self._operator.context.batch and not self._in_batch:
            return _IN_BATCH
        if self._watch is not None and self._watch.in_rows:
            return _SMALL_BLOCKS
        return _WAITS if self.wait > 0 else ""

    def leave(self, entries: int) -> None:
        """Note that so many entries go back from the arrays: a function is called, or records follow."""
        if not self._has_left:
            self._has_left, self.wait = True, 0
            if self._watch is None or not self._watch.in_rows:
                self.returns += 1
                self._again = self._again + 1 if self._computed < entries else 0
            self._computed = 0
        self.wait += entries << self._again


class WatchedPath:
    """Takes blocks through a ``ColumnPath``, or record by record where that is faster; of some it takes records both ways.

    If the function may catch what it raises for some records (``catches``), a block that falls back is divided until these are
    alone, so that the others stay columns. Results of records are columns again if whoever takes them wants columns and they are
    of the ``schema``; that of a filter is ``None``. ``drops_none``: results that are ``None`` are left out.

    A sample whose results differ is a bug of Funken's: the function is called for each record from then on, and whoever runs the
    job is warned.
    """

    def __init__(
        self, operator: UserFunctionOperator, path: ColumnPath[Columns], catches: bool, schema: Type | None,
        drops_none: bool = False,
    ) -> None:  # fmt: skip
        self._operator = operator
        self._path = path
        self._schema = schema
        self._divides = catches and schema is not None
        self._drops_none = drops_none
        self._watch = CostWatch()
        self._differs = False

    def take(self, block: Block) -> None:
        """Handle a block."""
        clock = self._operator.context.monotonic
        if type(block) is Columns and block.length and not self._differs and (part := self._watch.sample(block.length)):
            self._compare(block[part], clock)
        if type(block) is not Columns or not block.length or self._differs:
            self._path.left(block, "columns gave something else" if self._differs else "single records arrive")
            self._operator.process(*block.rows())
            return
        way = self._watch.way(block.length)
        if way is Way.ROWS:
            self._path.left(block, "columns cost more")
        begun = clock()
        parts = self._on_columns(block) if way is Way.COLUMNS else self._of_records(block)
        self._watch.took(way, block.length, clock() - begun)
        output = self._operator.output
        for results in parts:
            output.emit_block(results)

    def _on_columns(self, block: Columns) -> list[Block]:
        found = self._path.attempt(block)
        if found is not None:
            self._path.took(block)
            return [found] if found.length else []
        if not self._divides:
            self._path.left(block, self._path.why)
            return self._of_records(block)
        parts: list[Block] = []
        self._divide(block, parts)
        return _in_one(parts)

    def _divide(self, block: Columns, parts: list[Block]) -> None:
        """Add the results of a block that fell back."""
        if block.length <= _SMALLEST:
            self._path.left(block, self._path.why)
            parts += self._of_records(block)
            return
        for half in (block[: block.length // 2], block[block.length // 2 :]):
            found = self._path.attempt(half)
            if found is None:
                self._divide(half, parts)
            else:
                self._path.took(half)
                if found.length:
                    parts.append(found)

    # ---- record by record

    def _of_records(self, block: Columns) -> list[Block]:
        """Return the results of records one by one, as columns if they fit."""
        if self._schema is None and self._operator.output.takes_columns:
            with suppress(Exception):  # the function is called again, where it is raised with its record
                kept = block.keep(
                    np.fromiter(map(bool, map(self._operator.call, block.to_list())), np.bool_, block.length)
                )
                return [kept] if kept.length else []
        made = [self._as_columns(*each) for each in self._called(block)]
        return [part for part in made if len(part)]

    def _called(self, block: Columns) -> list[tuple[list[Any], list[int] | None]]:
        """Return what the function gives for the records of a block."""
        operator, output = self._operator, self._operator.output
        made: list[tuple[list[Any], list[int] | None]] = []
        operator.output = collecting = Output()
        collecting.emit = lambda values, timestamps: made.append((list(values), timestamps))
        try:
            operator.process(*block.rows())
        finally:
            operator.output = output
        return [self._without_none(*each) for each in made] if self._drops_none else made

    @staticmethod
    def _without_none(values: list[Any], timestamps: list[int] | None) -> tuple[list[Any], list[int] | None]:
        kept = [place for place, value in enumerate(values) if value is not None]
        return [values[place] for place in kept], None if timestamps is None else [timestamps[place] for place in kept]

    def _as_columns(self, values: list[Any], timestamps: list[int] | None) -> Block:
        columns = None
        if self._schema is not None and self._operator.output.takes_columns and values:
            columns = packed(values, self._schema, timestamps)
        return RowBlock(values, timestamps) if columns is None else columns

    # ---- both ways

    def _compare(self, sample: Columns, clock: Callable[[], float]) -> None:
        """Take records both ways, and compare and time them."""
        begun = clock()
        try:
            called: list[tuple[list[Any], list[int] | None]] | None = self._called(sample)
        except Exception:  # noqa: BLE001 - the block goes to the function, where it is raised again, with its record
            called = None
        else:
            self._watch.took(Way.ROWS, sample.length, clock() - begun)
        found = self._path.attempt(sample)
        if found is None or any(leaf.constant and leaf.data is NOT_READ for leaf in found.leaves):
            return
        values, timestamps = found.rows() if found.length else ([], None)
        right = None if called is None else [value for each, _ in called for value in each]
        convert = self._operator.output.convert
        if convert is not None:  # what has no names has them in columns, and another type perhaps
            values, right = list(map(convert, values)), None if right is None else list(map(convert, right))
        stamps = None if called is None else [stamp for _, each in called for stamp in each or ()]
        if right is None or not all_same(values, right) or (timestamps or []) != stamps:
            self._warn(values, right)

    def _warn(self, values: list[Any], right: list[Any] | None) -> None:
        """Leave the columns for good: they have given something else than the function."""
        self._differs = True
        if right is None:
            fact = "the function raises an exception for one of the records, and the columns do not"
        elif len(values) != len(right):
            fact = f"the function gives {len(right)} results for some records, and the columns {len(values)}"
        else:
            pairs = zip(values, right, strict=True)
            one, other = next((pair for pair in pairs if not same(*pair)), ("a timestamp", "another one"))
            fact = f"the function gives {other!r:.200}, and the columns {one!r:.200}"
        noted(ColumnsDiffer(fact), f"operator {self._operator.context.operator!r}: ")
        self._operator.context.warn(
            "columns",
            f"operator {self._operator.context.operator!r} is no longer vectorized, because its columns give something else: "
            f"{fact}. From now on the function is called for each record. Results before may be wrong: set "
            "pipeline.vectorized to false, run the job again from a savepoint, and report the function.",
        )


def _in_one(parts: list[Block]) -> list[Block]:
    """Return parts as one block, if they all are columns."""
    columns = [each for each in parts if isinstance(each, Columns)]
    stamped = {each.timestamps is None for each in columns}
    if len(columns) < len(parts) or len(parts) < 2 or len(stamped) > 1:
        return parts
    for number in range(len(columns[0].leaves)):
        # A field that nobody reads was not made of documents in columns; those that were parsed one by one have it.
        if any(each.leaves[number].constant and each.leaves[number].data is NOT_READ for each in columns):
            for each in columns:
                each.leaves[number] = Column(each.leaves[number].kind, NOT_READ, True)
    return [joined(columns)]
