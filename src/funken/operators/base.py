"""What an operator is: a spec that travels in the plan, and a logic that handles blocks.

Operators are called once per *block* (``columnar/block.py``) and loop themselves: what happens per record is the user's
function and as little else as can be. An operator of rows implements ``process``, which is given the block's two parallel lists,
``values`` and ``timestamps``; ``timestamps`` is ``None`` when no record of the block has one, and ``MIN_TIMESTAMP`` stands for a
single record without. One that takes columns as well implements ``process_block`` besides.

Rules every operator keeps:

* it never changes a list that it was given (a block may have several consumers), and may pass it on as it is; the records
  are its own and its functions', who may change them;
* it emits no record that it, or a function with state, keeps and may change later (``types/copying.py``);
* everything it emits for a block goes out before ``process`` returns; the watermark stands still meanwhile;
* it reads no clock: processing time comes from ``context.processing_time()``, and ``tick`` is called when it has moved;
* all that must survive a failure is in ``context.keyed`` / ``context.operator_state``, timers, or what ``snapshot`` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from funken.columnar.block import Block
from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.types.callables import Generic, T
from funken.types.info import TypeInformation, TypeOf

if TYPE_CHECKING:
    from funken.operators.context import OperatorContext


Values = list[Any]
Timestamps = list[int] | None


class Output:
    """Where an operator's results go; the chain fills in the callables, so that a call is one hop.

    ``emit(values, timestamps)`` and ``emit_side(tag, values, timestamps)`` take whole blocks of rows, ``emit_block(block)`` a
    block in any form; ``watermark(w)`` and ``idle(flag)`` go to every consumer, in order with the blocks. ``takes_columns``: a
    consumer is better off with columns. ``convert`` makes the declared type of a result that is emitted, if one is declared.
    """

    __slots__ = ("convert", "emit", "emit_block", "emit_side", "idle", "takes_columns", "watermark")

    emit: Callable[[Values, Timestamps], None]
    emit_block: Callable[[Block], None]
    emit_side: Callable[[str, Values, Timestamps], None]
    watermark: Callable[[int], None]
    idle: Callable[[bool], None]
    takes_columns: bool
    convert: Callable[[Any], Any] | None

    def __init__(self) -> None:
        self.takes_columns = True
        self.convert = None


class Operator:
    """The running half of an operator: one instance per subtask.

    Life: ``setup`` -> ``restore`` (only after a failure) -> ``open`` -> (``process`` | ``watermark`` | ``tick``)* ->
    ``finish`` (only if the input ended) -> ``close`` (always, also after a failure).
    """

    context: OperatorContext
    output: Output
    current_watermark: int = MIN_TIMESTAMP
    keeps_output = False
    """Whether the operator itself keeps records that it emits, as they are; chained operators are given copies then."""
    changes_records = True
    """Whether a function of the user sees the records, which may change them, or the operator passes them on."""
    takes_fields = False
    """Whether the operator has a ``process_block`` of its own that takes tuples field by field (``TupleBlock``)."""
    columnar = False
    """Whether the operator has a ``process_block`` of its own: it takes and gives columns (``funken/columnar``) besides rows."""

    @classmethod
    def build(cls) -> Self:
        """Make one: the class of an operator without arguments is a spec."""
        return cls()

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings; no user code runs here."""
        self.context = context
        self.output = output

    def open(self) -> None:
        """Run the user's ``open``."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block of the first input."""
        raise NotImplementedError

    def process_block(self, block: Block) -> None:
        """Handle a block of the first input as it comes, in rows or columns."""
        self.process(*block.rows())

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block of the second input (connected streams)."""
        raise NotImplementedError

    def process_second_block(self, block: Block) -> None:
        """Handle a block of the second input as it comes, in rows or columns."""
        self.process_second(*block.rows())

    def watermark(self, watermark: int) -> None:
        """Event time has reached ``watermark``, the minimum over all inputs: fire what is due, then pass it on."""
        self.current_watermark = watermark
        self.output.watermark(watermark)

    def watermark_input(self, index: int, watermark: int) -> None:
        """The watermark of one input alone rose (called only where it is overridden)."""

    def begin_key(self) -> None:
        """In ``BATCH``: a key is done, its timers have fired, and event time begins anew for the next."""
        self.current_watermark = MIN_TIMESTAMP

    def idle(self, idle: bool) -> None:
        """All inputs went idle (True) or one is active again (False)."""
        self.output.idle(idle)

    def next_tick(self) -> int | None:
        """Return when ``tick`` is due (ms, processing time); ``None``: never."""
        return None

    def tick(self, now: int) -> None:
        """Processing time has reached ``now``; called only at or after ``next_tick()``."""

    def awaits_results(self) -> bool:
        """Whether results of records it was given come later by themselves: a loop that it is in is not empty then."""
        return False

    def end_input(self, index: int) -> None:
        """Input ``index`` (0 or 1) has ended; the other may go on."""

    def pause(self) -> None:
        """A micro-batch has come to its end, and the job ends with a snapshot, to go on with the next."""

    def finish(self) -> None:
        """All inputs ended and ``MAX_WATERMARK`` was handled: emit what is held back."""

    def prepare_snapshot(self, checkpoint_id: int) -> Sequence[Any]:
        """A barrier is next: close transactions, and return what the driver is to commit (sinks only).

        Runs before ``context.before_snapshot`` and ``snapshot``.
        """
        return ()

    def snapshot(self) -> Any:
        """Return what must survive beyond keyed state and timers, as plain data (``None``: nothing)."""
        return None

    def restore(self, snapshot: Any) -> None:
        """Take back what ``snapshot`` returned."""

    def handle_operator_event(self, payload: Any) -> None:
        """Handle an event of the operator's coordinator; between two blocks."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete; later ones include it, so not every one is notified."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint is aborted."""

    def close(self) -> None:
        """Run the user's ``close``; must work after a failure at any point."""


class OperatorSpec(Protocol):
    """The declared half: frozen, picklable with cloudpickle, and able to build its logic."""

    def build(self) -> Operator:
        """Make the logic of one subtask."""
        ...


# ---- Output tags: what a function yields together with a value for a side output.


@dataclass(frozen=True, slots=True)
class OutputTag(Generic[T]):
    """Names a side output; tags with equal ids are the same output. ``OutputTag("late", str)`` is one of text.

    The type is a class, for type checkers, or a declaration, which also converts the records (a list of them: of rows).

    >>> OutputTag("late") == OutputTag("late", str)
    True
    """

    tag_id: str
    type_info: TypeOf[T] | Sequence[TypeInformation] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.tag_id:
            raise ValueError("OutputTag tag_id cannot be None or empty string: give the side output a name.")


SideOutput: TypeAlias = tuple[OutputTag[Any], Any]
"""What a function returns or yields among its results for a side output."""


__all__ = [
    "MAX_WATERMARK",
    "MIN_TIMESTAMP",
    "Operator",
    "OperatorSpec",
    "Output",
    "OutputTag",
    "SideOutput",
    "Timestamps",
    "Values",
]
