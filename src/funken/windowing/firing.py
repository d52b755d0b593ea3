"""The contract between a window and its trigger: what a trigger is told, may ask, and may answer.

A trigger is a declaration, shared by all keys and windows: whatever it remembers is in the partitioned state of its
context, which is filed under the key and the window, and so are its timers. ``FIRE`` keeps the contents, ``PURGE``
drops them and nothing else: trigger state goes when the window is cleaned up, through ``clear``.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar, Protocol

from funken.errors import InvalidProgram
from funken.state.descriptors import StateDescriptor


class TriggerResult(enum.Enum):
    """What to do with a window now: its name says whether to fire, to purge, or both.

    >>> TriggerResult.FIRE_AND_PURGE.is_fire(), TriggerResult.PURGE.is_fire()
    (True, False)
    """

    CONTINUE = (False, False)
    FIRE = (True, False)
    PURGE = (False, True)
    FIRE_AND_PURGE = (True, True)

    def is_fire(self) -> bool:
        """Return whether the window's function is to run."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether the window's contents are to go."""
        return self.value[1]


class TriggerContext(Protocol):
    """What a trigger may ask and do, for the key and window at hand."""

    def get_current_processing_time(self) -> int:
        """Return the processing time in milliseconds."""
        ...

    def get_current_watermark(self) -> int:
        """Return the watermark, ``-2**63`` before there is one."""
        ...

    def get_metric_group(self) -> Any:
        """Return the operator's metrics."""
        ...

    def register_processing_time_timer(self, time: int) -> None:
        """Ask for ``on_processing_time`` at ``time``."""
        ...

    def register_event_time_timer(self, time: int) -> None:
        """Ask for ``on_event_time`` when the watermark reaches ``time``."""
        ...

    def delete_processing_time_timer(self, time: int) -> None:
        """Take a processing-time timer back."""
        ...

    def delete_event_time_timer(self, time: int) -> None:
        """Take an event-time timer back."""
        ...

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return the state of this key and window."""
        ...


class OnMergeContext(TriggerContext, Protocol):
    """What a trigger may do in addition when windows were merged."""

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of the merged windows into that of the result."""
        ...


class Trigger:
    """Decides when a window fires; subclass it for a rule of your own, most simply from ``on_element`` alone.

    >>> class OnMarker(Trigger):
    ...     def on_element(self, element, timestamp, window, ctx):
    ...         return TriggerResult.FIRE if element == "now" else TriggerResult.CONTINUE
    >>> OnMarker().on_element("now", 0, None, None)
    <TriggerResult.FIRE: (True, False)>
    """

    TriggerContext: ClassVar[type] = TriggerContext
    OnMergeContext: ClassVar[type] = OnMergeContext

    def __class_getitem__(cls, types: Any) -> Any:
        """Accept type arguments, as in ``Trigger[Any, TimeWindow]``; they are not used."""
        return cls

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        """Decide after a record was added to the window."""
        raise NotImplementedError

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        """Decide when a processing-time timer of this window is due."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        """Decide when an event-time timer of this window is due."""
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return whether ``on_merge`` is implemented, which merging windows (sessions) need."""
        return False

    def on_merge(self, window: Any, ctx: Any) -> None:
        """Carry state and timers over to ``window``, into which others were merged."""
        raise InvalidProgram(f"{self!r} cannot be used with merging windows: implement on_merge and can_merge.")

    def clear(self, window: Any, ctx: Any) -> None:
        """Drop this window's trigger state and timers."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
