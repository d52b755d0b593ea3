"""Notice what does not happen: report a sensor that has been silent for ten seconds of event time.

State and timers belong to the key: each sensor has its own. Readings may come in any order and the report is the same,
because a timer asks what had happened by its own time, not what was seen last.
"""

from funken import KeyedProcessFunction, ListStateDescriptor, StreamExecutionEnvironment, WatermarkStrategy

READINGS = [  # second, sensor, temperature
    (0, "attic", 21.5),
    (2, "cellar", 12.0),
    (5, "attic", 21.7),
    (14, "cellar", 12.1),
    (31, "attic", 22.0),
    (32, "cellar", 12.2),
]
PATIENCE_MS = 10_000


class Silence(KeyedProcessFunction):
    def open(self, runtime_context):
        self.times = runtime_context.get_list_state(ListStateDescriptor("times", int))

    def process_element(self, value, ctx):
        self.times.add(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + PATIENCE_MS)

    def on_timer(self, timestamp, ctx):
        since = timestamp - PATIENCE_MS
        later = [at for at in self.times.get() if at > since]
        self.times.update(later)
        if not any(at <= timestamp for at in later):
            yield f"{ctx.get_current_key()} is silent since second {since // 1000}"


env = StreamExecutionEnvironment.get_execution_environment()
by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda reading, _: reading[0] * 1000)
(
    env.from_collection(READINGS)
    .assign_timestamps_and_watermarks(by_time)
    .key_by(lambda reading: reading[1])
    .process(Silence())
    .print()
    .set_parallelism(1)
)
env.execute("silence")
