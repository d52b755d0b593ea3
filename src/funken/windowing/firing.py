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
from funken.types.generics import Generic, T_contra, W_contra


class TriggerResult(enum.Enum):
    """What to do with a window now: its name says whether to fire, to purge, or both.

    >>> [result.name for result in TriggerResult if result.is_fire()]
    ['FIRE', 'FIRE_AND_PURGE']
    >>> [result.name for result in TriggerResult if result.is_purge()]
    ['PURGE', 'FIRE_AND_PURGE']
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


class Trigger(Generic[T_contra, W_contra]):
    """Decides when a window fires; subclass it for a rule of your own, most simply from ``on_element`` alone.

    This one fires at the first record of a window, for an early result, and again at its end:

    >>> from funken import ReducingStateDescriptor, TimeWindow
    >>> SEEN = ReducingStateDescriptor("seen", max)
    >>> class FirstAndLast(Trigger):
    ...     def on_element(self, element, timestamp, window, ctx):
    ...         ctx.register_event_time_timer(window.max_timestamp())
    ...         seen = ctx.get_partitioned_state(SEEN)
    ...         if seen.get():
    ...             return TriggerResult.CONTINUE
    ...         seen.add(True)
    ...         return TriggerResult.FIRE
    ...     def on_event_time(self, time, window, ctx):
    ...         return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE
    ...     def can_merge(self):  # sessions may use it
    ...         return True
    ...     def on_merge(self, window, ctx):
    ...         ctx.merge_partitioned_state(SEEN)
    ...         ctx.register_event_time_timer(window.max_timestamp())
    ...     def clear(self, window, ctx):
    ...         ctx.get_partitioned_state(SEEN).clear()
    ...         ctx.delete_event_time_timer(window.max_timestamp())

    ``funken.testing.WindowContext`` is a window to try it on:

    >>> from funken.testing import WindowContext
    >>> trigger, window = FirstAndLast(), TimeWindow(0, 10)
    >>> ctx = WindowContext(window)
    >>> [trigger.on_element(word, 5, window, ctx).name for word in ("to", "be")], ctx.event_time_timers
    (['FIRE', 'CONTINUE'], [9])
    """

    TriggerContext: ClassVar[type] = TriggerContext
    OnMergeContext: ClassVar[type] = OnMergeContext

    def on_element(self, element: T_contra, timestamp: int, window: W_contra, ctx: Any) -> TriggerResult:
        """Decide after a record was added to the window."""
        raise NotImplementedError

    def on_processing_time(self, time: int, window: W_contra, ctx: Any) -> TriggerResult:
        """Decide when a processing-time timer of this window is due; goes on unless overridden.

        >>> from funken.testing import WindowContext
        >>> class AfterOneSecond(Trigger):
        ...     def on_element(self, element, timestamp, window, ctx):
        ...         ctx.register_processing_time_timer(ctx.get_current_processing_time() + 1000)
        ...         return TriggerResult.CONTINUE
        ...     def on_processing_time(self, time, window, ctx):
        ...         return TriggerResult.FIRE_AND_PURGE
        >>> trigger, ctx = AfterOneSecond(), WindowContext(now=500)
        >>> trigger.on_element("record", 0, ctx.window, ctx).name, ctx.processing_time_timers
        ('CONTINUE', [1500])
        >>> trigger.on_processing_time(1500, ctx.window, ctx).name
        'FIRE_AND_PURGE'
        """
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W_contra, ctx: Any) -> TriggerResult:
        """Decide when an event-time timer of this window is due; goes on unless overridden."""
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return whether ``on_merge`` is implemented, which merging windows (sessions) need."""
        return False

    def on_merge(self, window: W_contra, ctx: Any) -> None:
        """Carry state and timers over to ``window``, into which others were merged."""
        raise InvalidProgram(f"{self!r} cannot be used with merging windows: implement on_merge and can_merge.")

    def clear(self, window: W_contra, ctx: Any) -> None:
        """Drop this window's trigger state and timers."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
