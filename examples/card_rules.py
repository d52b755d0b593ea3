"""Fraud by rules that change while the job runs: broadcast state, keyed state and timers.

A rule says: so many payments of a card within so many seconds are too many. Rules are a stream of their own and are
broadcast: every subtask keeps all of them. A payment is judged by the rules of its own time, whichever stream was read
first. So it waits in the state of its card until event time has passed it on both streams; then a timer judges it. What no
rule can count any more is forgotten.
"""

from typing import NamedTuple

from funken import (
    KeyedBroadcastProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)


class Payment(NamedTuple):
    second: int
    card: str
    amount: int


class Rule(NamedTuple):
    second: int  # it is in force from here on, until there is another of its name
    name: str
    at_least: int  # of payments of this amount
    times: int  # so many
    within: int  # in so many seconds are reported; 0 seconds: the rule is off


RULES = [
    Rule(0, "many", 1, 3, 10),
    Rule(0, "large", 500, 1, 1),
    Rule(40, "many", 1, 2, 20),  # stricter
    Rule(60, "large", 500, 1, 0),  # off
]
PAYMENTS = [
    Payment(1, "visa", 20),
    Payment(4, "amex", 900),
    Payment(5, "visa", 5),
    Payment(9, "visa", 7),
    Payment(30, "visa", 10),
    Payment(35, "visa", 15),
    Payment(50, "amex", 10),
    Payment(65, "amex", 800),
]
BY_NAME = MapStateDescriptor("rules by name")


class Judge(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.payments = runtime_context.get_list_state(ListStateDescriptor("payments"))

    def process_broadcast_element(self, rule, ctx):
        rules = ctx.get_broadcast_state(BY_NAME)
        rules.put(rule.name, [*(rules.get(rule.name) or []), rule])

    def process_element(self, payment, ctx):
        self.payments.add(payment)
        ctx.timer_service().register_event_time_timer(payment.second * 1000)

    def on_timer(self, timestamp, ctx):
        now = timestamp // 1000
        before = sorted(payment for payment in self.payments.get() if payment.second <= now)
        longest = 0
        for versions in ctx.get_broadcast_state(BY_NAME).values():
            longest = max(longest, *(version.within for version in versions))
            rule = max((version for version in versions if version.second <= now), default=None)
            if rule is None:
                continue
            counted = [p for p in before if now - rule.within < p.second and p.amount >= rule.at_least]
            if len(counted) >= rule.times and counted[-1].second == now:
                total = sum(payment.amount for payment in counted)
                yield f"second {now}, {ctx.get_current_key()}: rule '{rule.name}', {len(counted)} payments, {total} in all"
        self.payments.update([p for p in self.payments.get() if p.second > now - longest])


env = StreamExecutionEnvironment.get_execution_environment()
by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, _: event.second * 1000)
rules = env.from_collection(RULES).assign_timestamps_and_watermarks(by_time).broadcast(BY_NAME)
cards = env.from_collection(PAYMENTS).assign_timestamps_and_watermarks(by_time).key_by(lambda payment: payment.card)
cards.connect(rules).process(Judge()).print().set_parallelism(1)
env.execute("card rules")
