"""The choice of columns or rows for a function, by measured costs.

A function that can be read is not always faster on columns: a block of a few records pays for each kernel, and some kernels
call Python for each value. So both ways are timed. For the first blocks, and ever fewer later ones, the function itself is
called with some of the records as well, and its results are compared. A function with state takes each block one way only,
and is timed on it. This module decides from block lengths and seconds alone; the operator (``operators/columnar/path.py``,
``operators/stateful``) computes, compares and reads the clock.
"""

from __future__ import annotations

import enum
from collections import defaultdict, deque

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
