"""What a declared type does inside an operator: its results are converted before they go out, a block at a time.

``plan/rules/declared_types.py`` wraps the operators that have one; the others are not wrapped, so that types cost nothing
where there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funken.columnar.block import Block
from funken.dataclass import dataclass
from funken.operators.base import Operator, Output, Timestamps, Values
from funken.operators.context import OperatorContext
from funken.operators.traits import SpecWrapper
from funken.operators.user_functions import UserFunction
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
    """Return what takes a block: columns stay columns where the type makes of them what it makes of their records."""
    if not columnar:
        return lambda block: emit(*block.rows())
    from funken.columnar.loops.converting import BlocksConverted  # noqa: PLC0415 - for programs without columns, no NumPy

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


class ConvertedReduce:
    """A reduce function whose results are of a declared type, also where they are only its next argument."""

    def __init__(self, function: UserFunction, type_info: TypeInformation) -> None:
        self._function = function
        self._type_info = type_info

    def open(self, runtime_context: Any) -> None:
        """Open the function."""
        if self._function.rich:
            self._function.target.open(runtime_context)

    def close(self) -> None:
        """Close the function."""
        self._function.close()

    @property
    def reduce(self) -> Callable[[Any, Any], Any]:
        """The function and the converter in one call."""
        reduce, convert = self._function.bind(), converter(self._type_info)
        return lambda a, b: convert(reduce(a, b))

    @property
    def declared(self) -> tuple[UserFunction, TypeInformation]:
        """The function itself, and the type."""
        return self._function, self._type_info


def converted_reduce(function: UserFunction, type_info: TypeInformation | None) -> UserFunction:
    """Return the function, or one with a converter behind it if a type is declared."""
    if type_info is None:
        return function
    return UserFunction(ConvertedReduce(function, type_info), "reduce", function.rich)


def declared_of(call: UserFunction) -> tuple[UserFunction, TypeInformation | None]:
    """Return a reduce function as the program has it, and the type of its results, if that is declared.

    >>> from funken.types import Types
    >>> declared_of(converted_reduce(UserFunction(max), Types.INT()))
    (max, Integer)
    """
    return call.target.declared if isinstance(call.target, ConvertedReduce) else (call, None)
