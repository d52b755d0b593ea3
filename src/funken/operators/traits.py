"""The traits of an operator: all that plan rules and the runtime may know of it, declared by its spec.

Nobody outside the operators asks for the type of a spec: a spec that wraps another one (``SpecWrapper``) would hide it. A
spec declares traits by a property ``traits``; one that has none has the defaults, and the coordinator that its method
``coordinator(context)`` makes.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import field, replace

from funken.connectors.base import Boundedness, Source
from funken.dataclass import dataclass
from funken.operators.base import OperatorSpec
from funken.operators.coordinators.base import OperatorCoordinator, OperatorCoordinatorContext
from funken.operators.user_functions import UserFunction
from funken.types.info import TypeInformation

MakeCoordinator = Callable[[OperatorCoordinatorContext], OperatorCoordinator]


class BatchInput(enum.Enum):
    """The order in which a keyed operator gets its records in ``BATCH`` (Flink's ``InputRequirement``)."""

    SORTED = "key after key, each in the order of time"
    SORTED_BY_TIME = "each key in the order of time"
    """For an operator that emits at the end of the input only: keys need not take turns where there are no timestamps."""
    ANY_ORDER = "in the order of arrival"


@dataclass(frozen=True)
class LoopCall:
    """A function that a generated loop calls per record, or holds the body of; ``label`` ``None``: the operator's name."""

    function: UserFunction
    arguments: int = 1
    label: str | None = None


@dataclass(frozen=True)
class OperatorTraits:
    """What is known of an operator without knowing its class.

    >>> OperatorTraits().bounded, OperatorTraits().keys, OperatorTraits().fusable
    (True, (), False)
    """

    source: Source | None = None
    """The connector of a source."""
    sink: bool = False
    coordinator: MakeCoordinator | None = None
    keys: tuple[UserFunction | None, ...] = ()
    """The key selectors of the inputs of a keyed operator; ``None``: that input is not keyed."""
    batch_input: BatchInput = BatchInput.SORTED
    logic: str | None = None
    """Which logic runs the operator, where the spec chooses among several."""
    in_keyed_state: Callable[[], OperatorSpec] | None = None
    """Makes the same operator with all its state in keyed state; ``None``: it has no other state that grows."""
    columnar: bool = False
    """Whether the operator takes columns."""
    loop: tuple[LoopCall, ...] = ()
    """The functions of the operator's generated loop."""
    loop_if_read: bool = False
    """Whether there is such a loop only if the body of each function can be read."""
    calls: tuple[LoopCall, ...] | None = None
    """All functions of the program that the operator calls, if it waits for nothing beside them; ``None``: that is not known."""
    fusable: bool = False
    """Whether the loop may be one with those of its neighbours: the logic is a map, a filter or a flat_map."""
    catching: Callable[[], OperatorSpec] | None = field(default=None, compare=False)
    """Makes the same operator so that it handles records whose function raises; ``None``: it has no function per record."""
    side_functions: tuple[UserFunction, ...] | None = None
    """The functions that write to side outputs; ``None``: that is not known."""
    event_time_windows: bool = False
    """Whether windows end by event time."""
    late_tag: str | None = None
    """The side output of late records."""
    fields_read: tuple[int, ...] | None = None
    """The numbers of the fields of a source's records that are read, if that cannot change while the job runs."""
    output_type: TypeInformation | None = None
    """The declared type of the results, where the operator itself sees to it."""
    keeps_type: bool = False
    """Whether the results are of the type of the input."""
    loop_head: bool = False
    """Whether records come back to the operator: it is the head of a loop."""
    stays_with_input: bool = False
    """Whether the operator, unless told otherwise, has the parallelism of its input: the order of records matters to it."""

    @property
    def bounded(self) -> bool:
        """Whether the operator ends by itself: it is no source, or a bounded one."""
        return self.source is None or self.source.boundedness is Boundedness.BOUNDED


def traits_of(spec: object) -> OperatorTraits:
    """Return the traits that a spec declares, or the defaults."""
    declared = getattr(spec, "traits", None)
    traits = declared if isinstance(declared, OperatorTraits) else OperatorTraits()
    coordinator: MakeCoordinator | None = getattr(spec, "coordinator", None)
    return traits if coordinator is None else replace(traits, coordinator=coordinator)


@dataclass(frozen=True)
class SpecWrapper:
    """Base of a spec that holds another one, and has its traits."""

    spec: OperatorSpec

    @property
    def traits(self) -> OperatorTraits:
        """The traits of the spec it holds."""
        return traits_of(self.spec)


__all__ = ["BatchInput", "LoopCall", "OperatorTraits", "SpecWrapper", "traits_of"]
