"""Top-N: the two best sellers of every minute. Counts per item in a window, then the largest of each window."""

from funken import KeyedProcessFunction, ListStateDescriptor, StreamExecutionEnvironment, TumblingEventTimeWindows
from funken import WatermarkStrategy as Strategy

SALES = [  # second, item
    (3, "tea"), (8, "jam"), (15, "tea"), (21, "tea"), (30, "jam"), (44, "rye"),
    (61, "rye"), (70, "rye"), (88, "tea"), (95, "jam"), (99, "tea"), (110, "rye"),
]  # fmt: skip


class Best(KeyedProcessFunction):
    """Collect the counts of a window, and emit the largest when all of them have come."""

    def __init__(self, how_many):
        self.how_many = how_many

    def open(self, runtime_context):
        self.counts = runtime_context.get_list_state(ListStateDescriptor("counts"))

    def process_element(self, value, ctx):
        self.counts.add(value)
        ctx.timer_service().register_event_time_timer(value[0])

    def on_timer(self, timestamp, ctx):
        best = sorted(self.counts.get(), key=lambda count: (-count[2], count[1]))
        self.counts.clear()
        for place, (_, item, count) in enumerate(best[: self.how_many], 1):
            yield f"minute {ctx.get_current_key() // 60_000}, place {place}: {item}, {count}"


env = StreamExecutionEnvironment.get_execution_environment()
by_time = Strategy.for_monotonous_timestamps().with_timestamp_assigner(lambda sale, _: sale[0] * 1000)
counts = (
    env.from_collection(SALES)
    .assign_timestamps_and_watermarks(by_time)
    .key_by(lambda sale: sale[1])
    .window(TumblingEventTimeWindows.of("1 min"))
    .apply(lambda item, window, sales: [(window.end, item, len(list(sales)))])
)
counts.key_by(lambda count: count[0]).process(Best(2)).print().set_parallelism(1)
env.execute("best sellers")
