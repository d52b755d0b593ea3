"""Functions with event-time timers."""

from typing import Any

from funken import KeyedCoProcessFunction, KeyedProcessFunction, ValueStateDescriptor


class Silence(KeyedProcessFunction):
    """Tells of a key from which nothing has come for 10 ms."""

    def open(self, runtime_context: Any) -> None:
        self.due = runtime_context.get_state(ValueStateDescriptor("due"))
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        timers = ctx.timer_service()
        due = self.due.value()
        if due is not None:
            timers.delete_event_time_timer(due)
        self.due.update(ctx.timestamp() + 10)
        timers.register_event_time_timer(ctx.timestamp() + 10)
        self.count.update(self.count.value() + 1)
        if value[1] == 7:
            yield value[0], -1, ctx.timestamp()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if timestamp == self.due.value():
            self.due.clear()
            yield ctx.get_current_key(), self.count.value(), ctx.timestamp()


class Once(KeyedProcessFunction):
    """A timer at the second field, that tells how many records there were."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.count.update(self.count.value() + 1)
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.count.value(), timestamp


class Periodic(Once):
    """A timer that registers itself again, until 60."""

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if timestamp < 60:
            ctx.timer_service().register_event_time_timer(timestamp + 10)
        self.count.update(self.count.value() + 100)
        yield ctx.get_current_key(), self.count.value(), timestamp


class Cancels(Once):
    """Each timer deletes those of the next 2 ms."""

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        ctx.timer_service().delete_event_time_timer(timestamp + 1)
        ctx.timer_service().delete_event_time_timer(timestamp + 2)
        yield ctx.get_current_key(), self.count.value(), timestamp


class Divides(Once):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), 60 // (timestamp - 5), timestamp


class Unheard(Once):
    on_timer = KeyedProcessFunction.on_timer

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        ctx.timer_service().register_event_time_timer(value[1])
        yield value[0], self.count.value(), 0


class InTime(Once):
    """Drops what comes late."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[1] > ctx.timer_service().current_watermark():
            self.count.update(self.count.value() + 1)
            yield value[0], self.count.value(), value[1]


class Expected(KeyedCoProcessFunction):
    """What is ordered, and did not come."""

    def open(self, runtime_context: Any) -> None:
        self.until = runtime_context.get_state(ValueStateDescriptor("until"))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.until.update(value[1])
        ctx.timer_service().register_event_time_timer(value[1])

    def process_element2(self, value: Any, ctx: Any) -> Any:
        until = self.until.value()
        if until is not None:
            ctx.timer_service().delete_event_time_timer(until)
            self.until.clear()
            yield value[0], 1, until

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), 0, timestamp


class Told(Once):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), timestamp


class Earlier(Once):
    """A timer that sets one before itself."""

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if timestamp == 10:
            ctx.timer_service().register_event_time_timer(5)
        yield ctx.get_current_key(), timestamp, self.count.value()


class OnTheObject(Once):
    """An ``on_timer`` that is no method of the class."""

    def __init__(self) -> None:
        self.on_timer = self._fire

    def _fire(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), timestamp, self.count.value()
