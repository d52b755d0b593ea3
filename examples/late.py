"""Late records: wait a little, correct a result that is out already, and keep apart what comes too late for that."""

from datetime import timedelta

from funken import (
    OutputTag,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkGenerator,
    WatermarkStrategy,
)

CLICKS = [(1, "ada"), (4, "ada"), (12, "bob"), (3, "ada"), (21, "bob"), (2, "ada"), (15, "bob")]  # second, user
TOO_LATE = OutputTag("too late")


class EveryRecord(WatermarkGenerator):
    """Event time is the newest record: not what one would use, but it makes a short example."""

    def on_event(self, event, event_timestamp, output):
        output.emit_watermark(event_timestamp)


env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
by_time = WatermarkStrategy.for_generator(EveryRecord).with_timestamp_assigner(lambda click, _: click[0] * 1000)
counts = (
    env.from_collection(CLICKS)
    .assign_timestamps_and_watermarks(by_time)
    .key_by(lambda click: click[1])
    .window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    .allowed_lateness(timedelta(seconds=5))
    .side_output_late_data(TOO_LATE)
    .apply(lambda user, window, clicks: [f"{user}: {len(clicks)} click(s) by second {window.end // 1000}"])
)
counts.print("count")
counts.get_side_output(TOO_LATE).print("too late")
env.execute("late clicks")
