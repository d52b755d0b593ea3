"""Complex event processing: report cards on which small payments are followed by a large one, and tests left without one.

A thief tries a card with small amounts before the large one. A pattern says so: two or more small payments, then a
large one, all within a minute. What began like it and was not completed in time goes to a side output.
"""

from funken import OutputTag, StreamExecutionEnvironment, WatermarkStrategy
from funken.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternProcessFunction, TimedOutPartialMatchHandler

PAYMENTS = [  # second, card, amount
    (0, "visa", 2),
    (3, "amex", 40),
    (5, "visa", 1),
    (9, "visa", 3),
    (12, "visa", 800),
    (20, "amex", 1),
    (25, "amex", 4),
    (70, "visa", 900),
    (95, "amex", 700),
]
OPEN = OutputTag("not completed")

TESTED_THEN_USED = (
    Pattern.begin("test", AfterMatchSkipStrategy.skip_past_last_event())
    .where(lambda payment: payment[2] < 5)
    .times_or_more(2)
    .greedy()
    .followed_by("use")
    .where(lambda payment, ctx: payment[2] > 100 * max(test[2] for test in ctx.get_events_for_pattern("test")))
    .within(60_000)
)


class Report(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match, ctx):
        _, card, amount = match["use"][0]
        yield f"{card}: {amount} at second {ctx.timestamp() // 1000} after {len(match['test'])} tests"

    def process_timed_out_match(self, match, ctx):
        if len(match["test"]) > 1:
            yield OPEN, f"{match['test'][0][1]}: tested, but not used by second {ctx.timestamp() // 1000}"


env = StreamExecutionEnvironment.get_execution_environment()
by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda payment, _: payment[0] * 1000)
cards = env.from_collection(PAYMENTS).assign_timestamps_and_watermarks(by_time).key_by(lambda payment: payment[1])
frauds = CEP.pattern(cards, TESTED_THEN_USED).process(Report())
frauds.union(frauds.get_side_output(OPEN)).print().set_parallelism(1)
env.execute("fraud")
