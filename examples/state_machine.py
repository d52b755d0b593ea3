"""Check the events of each device against a state machine: report transitions that it does not allow.

The state is what the last event has led to, so a transition is two events in a row, and a pattern of two parts finds the
forbidden ones. Its second condition sees the event that the first part has taken. Events come out of order, and are sorted by
their time before they are matched.
"""

from datetime import timedelta

from funken import StreamExecutionEnvironment, WatermarkStrategy
from funken.cep import CEP, Pattern

TRANSITIONS = {
    "boot": {"connect"},
    "connect": {"send", "disconnect"},
    "send": {"send", "disconnect"},
    "disconnect": {"connect", "halt"},
    "halt": {"boot"},
}
EVENTS = [  # second, device, event
    (1, "cam-1", "boot"),
    (2, "cam-2", "boot"),
    (4, "cam-1", "send"),
    (3, "cam-1", "connect"),
    (5, "cam-2", "send"),
    (6, "cam-1", "halt"),
    (8, "cam-2", "disconnect"),
    (7, "cam-1", "boot"),
    (9, "cam-2", "halt"),
]


def forbidden(event, ctx):
    (before,) = ctx.get_events_for_pattern("before")
    return event[2] not in TRANSITIONS[before[2]]


def alert(match):
    (_, _, state), (second, device, event) = match["before"][0], match["event"][0]
    return f"{device}: {event} after {state} at second {second}"


env = StreamExecutionEnvironment.get_execution_environment()
by_time = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=2))
by_time = by_time.with_timestamp_assigner(lambda event, _: event[0] * 1000)
devices = env.from_collection(EVENTS).assign_timestamps_and_watermarks(by_time).key_by(lambda event: event[1])
CEP.pattern(devices, Pattern.begin("before").next("event").where(forbidden)).select(alert).print().set_parallelism(1)
env.execute("state machine")
