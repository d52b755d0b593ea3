"""Operators around operators: results of a declared type, and input that is sorted by key in BATCH.

What a declared type does inside an operator: its results are converted before they go out, a block at a time.

``plan/rules/operators.py`` wraps the operators that have one; the others are not wrapped, so that types cost nothing
where there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

from funken.columnar.block import Block
from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Operator, OperatorContext, Output, Timestamps, Values
from funken.operators.user_functions import BatchInput, SpecWrapper, UserFunction
from funken.state.keygroups import PLAIN, normal_key
from funken.types.convert import Convert, converter
from funken.types.info import TypeInformation


@dataclass(frozen=True)
class Converting(SpecWrapper):
    """An operator with a declared type for its main output (``None``: none), and for side outputs by tag."""

    type_info: TypeInformation | None = None
    sides: tuple[tuple[str, TypeInformation], ...] = ()

    def build(self) -> Operator:
        """Make the logic, with a converter in front of its outputs."""
        operator = self.spec.build()
        setup = operator.setup

        def setup_typed(context: OperatorContext, output: Output) -> None:
            setup(context, self._converting(output, operator.columnar))

        operator.setup = setup_typed  # type: ignore[method-assign]
        return operator

    def _converting(self, output: Output, columnar: bool) -> Output:
        typed = Output()
        typed.watermark, typed.idle, typed.takes_columns = output.watermark, output.idle, output.takes_columns
        typed.emit, typed.emit_block, typed.emit_side = output.emit, output.emit_block, output.emit_side
        if self.type_info is not None:
            typed.convert = converter(self.type_info)
            typed.emit = _main(typed.convert, output.emit)
            typed.emit_block = _blocks(self.type_info, typed.emit, output.emit_block, columnar)
        if self.sides:
            typed.emit_side = _side({tag: converter(of) for tag, of in self.sides}, output.emit_side)
        return typed


def _main(convert: Convert, emit: Callable[[Values, Timestamps], None]) -> Callable[[Values, Timestamps], None]:
    def converted(values: Values, timestamps: Timestamps) -> None:
        rest = iter(values)
        emit([convert(value) for value in rest], timestamps)

    return converted


def _blocks(
    type_info: TypeInformation,
    emit: Callable[[Values, Timestamps], None],
    emit_block: Callable[[Block], None],
    columnar: bool,
) -> Callable[[Block], None]:
    """Return a consumer of blocks: columns stay columns where the type converts them as it converts their records."""
    if not columnar:
        return lambda block: emit(*block.rows())
    from funken.columnar.kernels.columns import BlocksConverted  # noqa: PLC0415 - for programs without columns, no NumPy

    convert = BlocksConverted(type_info)

    def converted(block: Block) -> None:
        columns = convert(block)
        if columns is None:
            emit(*block.rows())
        else:
            emit_block(columns)

    return converted


def _side(
    converts: dict[str, Convert], emit_side: Callable[[str, Values, Timestamps], None]
) -> Callable[[str, Values, Timestamps], None]:
    def emit(tag: str, values: Values, timestamps: Timestamps) -> None:
        convert = converts.get(tag)
        rest = iter(values)
        emit_side(tag, values if convert is None else [convert(value) for value in rest], timestamps)

    return emit


# ---- BATCH: an operator on a keyed stream is given one key after the other, each in the order of time (Flink's
# FLIP-140).
#
# Records are kept until the input has ended. Then the keys come in the order of their first records, and a key's
# records by timestamp, those of two inputs among each other; of equal timestamps the first input's come first, and
# else what came first. Records without a timestamp come before the others. Event time stands at ``MIN_TIMESTAMP``
# while a key's records go by and jumps to ``MAX_WATERMARK`` at its end: all its event-time timers fire, then its
# processing-time ones, and what they register is ignored. Then the key's state is dropped. Watermarks before the
# end mean nothing.
#
# All that is kept is in memory. Not kept are records of a rolling aggregate that have no timestamp, since their
# order is that of arrival and nobody sees whether keys take turns; nor those of a window over columns
# (``plan/rules/vectorize.py`` sees to it that their order does not matter there).


_BLOCK = 4096

Handle = Callable[[Values, Timestamps], None]


@dataclass(frozen=True)
class SortedInput(SpecWrapper):
    """An operator on a keyed stream as it runs in ``BATCH``, for the order that its traits ask for."""

    def build(self) -> Operator:
        """Make the logic of one subtask."""
        traits = self.traits
        return SortedInputLogic(self.spec.build(), traits.keys, traits.batch_input is BatchInput.SORTED)


class SortedInputLogic(Operator):
    """Keeps the records of every key until the end, then runs ``inner`` over them.

    An input without a key is not kept. ``turns`` is false for an operator that emits nothing before the end: it
    is given the keys one after the other, and told of the end of all of them.
    """

    def __init__(self, inner: Operator, keys: tuple[UserFunction | None, ...], turns: bool = True) -> None:
        self._inner = inner
        self._keys = [None if key is None else key.bind() for key in keys]
        self._turns = turns
        self._kept: dict[Any, _Records] = {}

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Set an output of the inner operator that gathers its results, and passes no watermark: it comes at the end."""
        super().setup(context, output)
        self._gathered = _Gathered(output)
        self._inner.setup(context, self._gathered.output)

    def open(self) -> None:
        """Open the inner operator."""
        self._inner.open()

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Keep records of the first input."""
        self._take(0, values, timestamps, self._inner.process)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Keep records of the second input."""
        self._take(1, values, timestamps, self._inner.process_second)

    def _take(self, index: int, values: Values, timestamps: Timestamps, handle: Handle) -> None:
        key_of, kept = self._keys[index], self._kept
        if key_of is None or (timestamps is None and not self._turns):
            handle(values, timestamps)
            return
        stamps = [MIN_TIMESTAMP] * len(values) if timestamps is None else timestamps
        several = len(self._keys) > 1
        for value, at in zip(values, stamps, strict=True):
            key = key_of(value)
            if type(key) not in PLAIN:
                key = normal_key(key)
            records = kept.get(key)
            if records is None:
                records = kept[key] = _Records()
            records.values.append(value)
            records.stamps.append(at)
            if several:
                records.inputs.append(index)

    def watermark(self, watermark: int) -> None:
        """At the end of the input: run key after key."""
        if watermark != MAX_WATERMARK:
            return
        handlers = self._inner.process, self._inner.process_second
        while self._kept:
            for index, values, stamps in self._kept.pop(next(iter(self._kept))).in_order():
                handlers[index](values, stamps)
            if self._turns:
                self._inner.watermark(MAX_WATERMARK)
                self._inner.begin_key()
                self._forget_key()
        if not self._turns:
            self._inner.watermark(MAX_WATERMARK)
        self._gathered.flush()
        super().watermark(watermark)

    def _forget_key(self) -> None:
        if self.context.timers is not None:
            self.context.timers.current_watermark = MIN_TIMESTAMP
        if self.context.keyed is not None:
            self.context.keyed.drop()

    def end_input(self, index: int) -> None:
        """Tell the inner operator."""
        self._inner.end_input(index)

    def finish(self) -> None:
        """Finish the inner operator."""
        self._inner.finish()
        self._gathered.flush()

    def close(self) -> None:
        """Close the inner operator."""
        self._inner.close()


class _Records:
    """The records of one key, in the order of arrival; ``inputs`` says of each where from, if there are several."""

    __slots__ = ("inputs", "stamps", "values")

    def __init__(self) -> None:
        self.values: Values = []
        self.stamps: list[int] = []
        self.inputs = bytearray()

    def in_order(self) -> list[tuple[int, Values, Timestamps]]:
        """Return the records in the order of time, as blocks of one input each."""
        values, stamps, inputs = self.values, self.stamps, self.inputs
        one_input = not inputs or inputs.count(inputs[0]) == len(inputs)
        if one_input and stamps == sorted(stamps):
            return [(inputs[0] if inputs else 0, values, _known(stamps))]
        order = list(range(len(values)))
        if not one_input:
            order.sort(key=inputs.__getitem__)
        order.sort(key=stamps.__getitem__)
        blocks: list[tuple[int, Values, Timestamps]] = []
        for index, positions in groupby(order, inputs.__getitem__ if inputs else lambda at: 0):
            chosen = list(positions)
            blocks.append((index, [values[at] for at in chosen], _known([stamps[at] for at in chosen])))
        return blocks


class _Gathered:
    """Results of many keys, as blocks that are worth their while."""

    def __init__(self, behind: Output) -> None:
        self._behind = behind
        self._main: tuple[Values, list[int]] = ([], [])
        self._sides: dict[str, tuple[Values, list[int]]] = {}
        self.output = Output()
        self.output.emit = self._emit
        self.output.emit_block = lambda block: self._emit(*block.rows())
        self.output.emit_side = self._emit_side
        self.output.watermark = lambda watermark: None
        self.output.idle = lambda idle: None

    def _emit(self, values: Values, timestamps: Timestamps) -> None:
        _add(self._main, values, timestamps)
        if len(self._main[0]) >= _BLOCK:
            self.flush()

    def _emit_side(self, tag: str, values: Values, timestamps: Timestamps) -> None:
        side = self._sides.setdefault(tag, ([], []))
        _add(side, values, timestamps)
        if len(side[0]) >= _BLOCK:
            self.flush()

    def flush(self) -> None:
        """Emit the gathered records."""
        (values, stamps), self._main = self._main, ([], [])
        if values:
            self._behind.emit(values, _known(stamps))
        sides, self._sides = self._sides, {}
        for tag, (values, stamps) in sides.items():
            self._behind.emit_side(tag, values, _known(stamps))


def _add(to: tuple[Values, list[int]], values: Values, timestamps: Timestamps) -> None:
    to[0].extend(values)
    to[1].extend([MIN_TIMESTAMP] * len(values) if timestamps is None else timestamps)


def _known(stamps: list[int]) -> Timestamps:
    """Return timestamps, ``None`` if there is none among them."""
    return stamps if max(stamps) != MIN_TIMESTAMP else None
