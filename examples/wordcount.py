"""Count words in event time: how often each occurred in the last five seconds, every second."""

from datetime import timedelta

from funken import SlidingEventTimeWindows, StreamExecutionEnvironment, WatermarkStrategy

VERSES = [  # second, text
    (60, "to be or not to be that is the question"),
    (63, "to die to sleep no more and by a sleep to say we end"),
    (64, "to die to sleep to sleep perchance to dream"),
]


def with_second(word, window, sums):
    return [(window.end // 1000, word, count) for _, count in sums]


env = StreamExecutionEnvironment.get_execution_environment()
by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda verse, _: verse[0] * 1000)
(
    env.from_collection(VERSES)
    .assign_timestamps_and_watermarks(by_time)
    .flat_map(lambda verse: [(word, 1) for word in verse[1].split()])
    .key_by(lambda pair: pair[0])
    .window(SlidingEventTimeWindows.of(timedelta(seconds=5), timedelta(seconds=1)))
    .reduce(lambda one, other: (one[0], one[1] + other[1]), with_second)
    .filter(lambda result: result[2] >= 5)
    .print()
    .set_parallelism(1)
)
env.execute("word count")
