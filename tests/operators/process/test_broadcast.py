import pytest

from funken.errors import StateError, StateNotKeyed
from funken.operators.base import OutputTag
from funken.operators.process.two_inputs import BroadcastProcess
from funken.operators.user_functions import UserFunction
from funken.state.delta_tables import OperatorStates
from funken.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from funken.testing import OperatorHarness

RULES = MapStateDescriptor("rules")


class Rules:
    """Broadcast elements ``(name, rule)`` are rules; main elements are labelled with those in force."""

    def process_element(self, value, ctx):
        yield value, dict(ctx.get_broadcast_state(RULES).items()), ctx.timestamp()

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)
        yield OutputTag("seen"), value


def rules(**options):
    return OperatorHarness(BroadcastProcess(UserFunction(Rules()), (RULES,)), name="op", **options)


def test_the_main_side_reads_what_the_broadcast_side_wrote():
    op = rules()
    op.feed("x", 1)
    op.feed_second(("a", 1), 2)
    op.feed("y", 3)
    assert op.output == [("x", {}, 1), ("y", {"a": 1}, 3)]
    assert op.side_output("seen") == [("a", 1)]


@pytest.mark.parametrize("write", ["put", "put_all", "remove", "clear", "__setitem__", "__delitem__"])
def test_s63_broadcast_state_is_writable_on_the_broadcast_side_only(write):
    class Write(Rules):
        def process_element(self, value, ctx):
            state = ctx.get_broadcast_state(RULES)
            assert not hasattr(state, write)
            assert not hasattr(state.items(), "remove")
            yield "checked"

    op = OperatorHarness(BroadcastProcess(UserFunction(Write()), (RULES,)))
    op.feed("x")
    assert op.output == ["checked"]


def test_read_only_broadcast_state_has_the_reading_methods_of_a_map():
    class Read(Rules):
        def process_element(self, value, ctx):
            state = ctx.get_broadcast_state(RULES)
            yield [
                state.get("a"), state["a"], state["b"], state.contains("a"), "b" in state, state.is_empty(),
                list(state), list(state.keys()), list(state.values()), list(state.items()),
            ]  # fmt: skip

    op = OperatorHarness(BroadcastProcess(UserFunction(Read()), (RULES,)))
    op.feed_second(("a", 1))
    op.feed("x")
    assert op.output == [[1, 1, None, True, False, False, ["a"], ["a"], [1], [("a", 1)]]]


def test_a_state_that_was_not_declared_is_named():
    class Other(Rules):
        def process_element(self, value, ctx):
            ctx.get_broadcast_state(MapStateDescriptor("other"))

    op = OperatorHarness(BroadcastProcess(UserFunction(Other()), (RULES,)), name="op")
    with pytest.raises(StateError, match=r"operator 'op' .* 'other', which was not declared; declared: rules"):
        op.feed("x")


def test_s63_in_batch_the_broadcast_side_is_read_first():
    op = rules(batch=True)
    op.feed_block(["x", "y"], [1, 2])
    op.end_input(0)
    op.feed_second(("a", 1))
    assert op.output == []
    op.end_input(1)
    assert op.output_with_timestamps == [(("x", {"a": 1}, 1), 1), (("y", {"a": 1}, 2), 2)]
    op.feed("z", 3)
    assert op.output[2:] == [("z", {"a": 1}, 3)]


def test_s63_in_batch_nothing_is_held_back_at_the_last_watermark():
    op = rules(batch=True)
    op.feed("x", 1)
    op.watermark(2**63 - 1)
    assert op.output == [("x", {}, 1)]
    assert op.watermarks == [2**63 - 1]


def test_broadcast_state_is_in_the_operator_state_of_every_subtask():
    before = rules()
    before.feed_second(("a", 1))
    snapshot = before.snapshot()
    assert snapshot["operator_state"] == OperatorStates(broadcast={"rules": {"a": 1}})
    for subtask in range(2):
        after = OperatorHarness.restored(
            BroadcastProcess(UserFunction(Rules()), (RULES,)), snapshot, subtask=subtask, parallelism=2
        )
        after.feed("x", 1)
        assert after.output == [("x", {"a": 1}, 1)]


class KeyedRules(Rules):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        ctx.timer_service().register_event_time_timer(10)
        yield ctx.get_current_key(), self.count.value(), ctx.current_watermark(), ctx.current_processing_time()

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES)[value] = value
        yield value, ctx.current_watermark(), ctx.current_processing_time()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), ctx.time_domain().name, list(ctx.get_broadcast_state(RULES))

    def close(self):
        pass


def keyed_rules(function, **options):
    spec = BroadcastProcess(UserFunction(function, rich=True), (RULES,), UserFunction(lambda value: value[0]))
    return OperatorHarness(spec, keyed=True, **options)


def test_a_keyed_main_side_has_state_and_timers():
    op = keyed_rules(KeyedRules(), now=7)
    op.feed_block([("a", 1), ("b", 2), ("a", 3)])
    op.feed_second("r")
    none = -(2**63)
    assert op.output == [("a", 1, none, 7), ("b", 1, none, 7), ("a", 2, none, 7), ("r", none, 7)]
    op.clear_output()
    op.watermark(10)
    assert op.output_with_timestamps == [(("a", "EVENT_TIME", ["r"]), 10), (("b", "EVENT_TIME", ["r"]), 10)]


def test_a_broadcast_element_has_no_key():
    class Use(KeyedRules):
        def process_broadcast_element(self, value, ctx):
            value(self, ctx)

    op = keyed_rules(Use())
    op.feed(("a", 1))
    for use in (
        lambda self, ctx: self.count.value(),
        lambda self, ctx: ctx.timer_service().register_event_time_timer(1),
    ):
        with pytest.raises(StateNotKeyed, match="no key was current"):
            op.feed_second(use)


def test_s22_s63_in_batch_the_keyed_main_side_waits_and_fires_its_timers_at_the_end():
    op = keyed_rules(KeyedRules(), batch=True)
    op.feed(("a", 1))
    op.feed_second("r")
    op.clear_output()
    op.end_input()
    assert [result[:2] for result in op.output] == [("a", 1), ("a", "EVENT_TIME")]
    assert op.output[-1] == ("a", "EVENT_TIME", ["r"])
