"""From a DataFrame to a DataFrame: what SQL cannot say well in the middle, and SQL before and after.

Each bicycle of a rental has a lock that reports when it is opened and closed. SQL takes the events of a day; a process
function with state makes rides of them, and knows which bicycle is still out; SQL again says how long rides are from where.
"""

from pyspark.sql import SparkSession

from funken import (
    KeyedProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)

EVENTS = [  # when, bicycle, station, what the lock did
    ("2026-11-21 23:50:00", 7, "port", "opened"),
    ("2026-11-22 08:00:00", 1, "park", "opened"),
    ("2026-11-22 08:05:00", 2, "port", "opened"),
    ("2026-11-22 08:20:00", 1, "port", "closed"),
    ("2026-11-22 08:30:00", 2, "park", "closed"),
    ("2026-11-22 09:00:00", 1, "port", "opened"),
    ("2026-11-22 09:10:00", 1, "park", "closed"),
    ("2026-11-22 10:00:00", 2, "park", "opened"),
]


class Rides(KeyedProcessFunction):
    def open(self, runtime_context):
        self.opened = runtime_context.get_state(ValueStateDescriptor("opened"))

    def process_element(self, event, ctx):
        if event.action == "opened":
            self.opened.update((event.at, event.station))
        elif self.opened.value() is not None:
            since, station = self.opened.value()
            self.opened.clear()
            minutes = (event.at - since).total_seconds() / 60
            yield {"bicycle": event.bicycle, "origin": station, "target": event.station, "minutes": minutes}


spark = (
    SparkSession.builder.master("local[4]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
events = spark.createDataFrame(EVENTS, "at string, bicycle long, station string, action string")
day = events.selectExpr("cast(at as timestamp) as at", "bicycle", "station", "action").where("at >= '2026-11-22'")

env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)  # each bicycle's events come in the order of their time
by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, _: event.at)
rides = env.from_spark(day, by_time).key_by(lambda event: event.bicycle).process(Rides())

spark.createDataFrame(rides.to_arrow()).createOrReplaceTempView("rides")
by_origin = "select origin, count(*) as rides, avg(minutes) as minutes from rides group by origin order by origin"
for row in spark.sql(by_origin).collect():
    print(f"from the {row.origin}: {row.rides} rides of {row.minutes:.0f} minutes")
spark.stop()
