"""Late data from devices: means per minute that are corrected when an old reading arrives, until it is too old for that.

Gateways collect the readings of thermometers. When a gateway knows that it has passed on all readings up to a second, it
sends a mark: these make the watermark. A thermometer that has been out of reach sends its readings later. For five minutes they
correct the mean of their minute, which is emitted again with a new revision; what comes later still goes to a side output.
"""

from typing import NamedTuple

from funken import (
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkGenerator,
    WatermarkStrategy,
)


class Reading(NamedTuple):
    second: int
    device: str
    celsius: float | None  # None: not a reading, but the mark of a gateway


def mark(second):
    return Reading(second, "gateway", None)


RECEIVED = [
    Reading(5, "attic", 21.0),
    Reading(20, "cellar", 12.0),
    Reading(40, "attic", 22.0),
    mark(60),
    Reading(70, "attic", 23.0),
    Reading(50, "cellar", 14.0),  # a minute late: corrects the first minute of the cellar
    mark(120),
    Reading(130, "attic", 25.0),
    mark(420),
    Reading(55, "cellar", 15.0),  # six minutes late: too old
    Reading(425, "cellar", 13.0),
    mark(480),
]
TOO_OLD = OutputTag("too old")
REVISION = ValueStateDescriptor("revision", default=0)


class Marks(WatermarkGenerator):
    """Watermarks come with the marks, and only with them."""

    def on_event(self, event, event_timestamp, output):
        if event.celsius is None:
            output.emit_watermark(event_timestamp - 1)


class Mean(ProcessWindowFunction):
    def process(self, device, context, readings):
        revision = context.window_state().get_state(REVISION)
        revision.update(revision.value() + 1)
        degrees = [reading.celsius for reading in readings]
        minute = context.window().start // 60_000
        yield f"{device}, minute {minute}, revision {revision.value()}: {sum(degrees) / len(degrees):.1f}"

    def clear(self, context):
        context.window_state().get_state(REVISION).clear()


env = StreamExecutionEnvironment.get_execution_environment()
by_marks = WatermarkStrategy.for_generator(Marks).with_timestamp_assigner(lambda reading, _: reading.second * 1000)
means = (
    env.from_collection(RECEIVED)
    .assign_timestamps_and_watermarks(by_marks)
    .filter(lambda reading: reading.celsius is not None)
    .set_parallelism(1)  # one subtask, as the source has: a mark must not overtake the readings before it
    .key_by(lambda reading: reading.device)
    .window(TumblingEventTimeWindows.of("1 min"))
    .allowed_lateness("5 min")
    .side_output_late_data(TOO_OLD)
    .process(Mean())
)
means.print("mean").set_parallelism(1)
means.get_side_output(TOO_OLD).print("too old").set_parallelism(1)
env.execute("late readings")
