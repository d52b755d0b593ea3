"""``WatermarkStrategy`` as PyFlink has it: ``with_timestamp_assigner`` changes the strategy itself, too."""

from __future__ import annotations

from typing import Any

from funken.compat.pyflink.adoption import refuse
from funken.timing import watermarks as native
from funken.timing.watermarks import BoundedOutOfOrdernessSpec, TimestampAssigner


class WatermarkStrategy(native.WatermarkStrategy):
    """A rule for timestamps of records, and for watermarks of event time.

    >>> strategy = WatermarkStrategy.for_monotonous_timestamps()
    >>> strategy.with_timestamp_assigner(lambda event, previous: 7) is strategy
    True
    >>> strategy.with_idleness(1000).assigner("event", 0)
    7
    """

    def __init__(self, generator: Any = None, *fields: Any, **more: Any) -> None:
        if generator is not None and not callable(generator):
            refuse(f"WatermarkStrategy({generator!r})", "Use for_generator() with a WatermarkGenerator.")
        super().__init__(generator, *fields, **more)

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Timestamps never go down: the watermark is the highest one less 1 ms."""
        return WatermarkStrategy(BoundedOutOfOrdernessSpec(0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Any) -> WatermarkStrategy:
        """Records come at most this late."""
        return WatermarkStrategy(native.WatermarkStrategy.for_bounded_out_of_orderness(max_out_of_orderness).generator)

    @staticmethod
    def for_generator(generator: Any) -> WatermarkStrategy:
        """Use a generator of your own."""
        return WatermarkStrategy(generator)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No event time, until the end of a bounded input."""
        return WatermarkStrategy()

    def with_timestamp_assigner(self, timestamp_assigner: Any) -> WatermarkStrategy:
        """Take timestamps from an assigner; changes this strategy and returns it."""
        changed = super().with_timestamp_assigner(timestamp_assigner)
        object.__setattr__(self, "assigner", changed.assigner)
        return self


class AssignerWithPeriodicWatermarksWrapper:
    """A Java assigner: refused."""

    def __init__(self, *args: Any) -> None:
        refuse("AssignerWithPeriodicWatermarksWrapper", "Use a WatermarkStrategy.")


__all__ = ["TimestampAssigner"]
