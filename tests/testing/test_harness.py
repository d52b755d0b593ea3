import pytest

from funken.ids import MAX_WATERMARK
from funken.operators.base import Operator
from funken.testing import OperatorHarness


class Probe(Operator):
    """Writes down what it is told."""

    def __init__(self):
        self.calls = []

    def setup(self, context, output):
        self.calls.append("setup")
        super().setup(context, output)

    def open(self):
        self.calls.append("open")

    def process(self, values, timestamps):
        self.output.emit(values, timestamps)

    def process_second(self, values, timestamps):
        self.output.emit_side("second", values, timestamps)

    def watermark_input(self, index, watermark):
        self.calls.append(("watermark_input", index))

    def end_input(self, index):
        self.calls.append(("end", index))

    def finish(self):
        self.calls.append("finish")

    def snapshot(self):
        return list(self.calls)

    def restore(self, snapshot):
        self.calls.append(("restored", len(snapshot)))

    def close(self):
        self.calls.append("close")


def test_the_life_of_an_operator():
    probe = Probe()
    with OperatorHarness(probe) as op:
        op.feed(1, 10)
        op.end_input()
    assert probe.calls == [
        "setup", "open", ("end", 0), ("end", 1), ("watermark_input", 0), ("watermark_input", 1), "finish", "close",
    ]  # fmt: skip
    assert op.watermarks == [MAX_WATERMARK]


def test_state_is_restored_before_the_operator_is_opened():
    before = OperatorHarness(Probe())
    before.context.operator_state.union["list"] = [1]
    after = OperatorHarness.restored(Probe(), before.snapshot(), before.snapshot())
    assert after.operator.calls == ["setup", ("restored", 2), ("restored", 2), "open"]
    after.context.operator_state.union["list"].append(2)
    assert before.context.operator_state.union == {"list": [1]}


def test_what_is_emitted_can_be_looked_at_with_and_without_timestamps():
    op = OperatorHarness(Probe())
    op.feed(1, 10)
    op.feed(2)
    op.feed_second(3, 30)
    op.idle()
    assert op.output == [1, 2]
    assert op.output_with_timestamps == [(1, 10), (2, None)]
    assert op.side_output("second") == [3]
    assert op.side_output("none") == []
    assert op.is_idle
    op.clear_output()
    assert op.output == op.side_output("second") == []


class Ticker(Operator):
    """Wants a tick every ten ms."""

    due = 10

    def next_tick(self):
        return self.due

    def tick(self, now):
        self.output.emit([(self.due, now, self.context.processing_time())], None)
        self.due += 10


def test_processing_time_ticks_the_operator_while_it_is_due():
    op = OperatorHarness(Ticker())
    op.processing_time(9)
    assert op.output == []
    op.processing_time(25)
    assert op.output == [(10, 25, 25), (20, 25, 25)]


def test_an_operator_that_asks_for_ticks_without_end_is_noticed():
    class Restless(Operator):
        def next_tick(self):
            return 0

    with pytest.raises(AssertionError, match="still asks for a tick at 0"):
        OperatorHarness(Restless()).processing_time(1)


def test_an_operator_that_changes_its_input_is_noticed():
    class Rude(Operator):
        def process(self, values, timestamps):
            values.reverse()

    with pytest.raises(AssertionError, match="must not change the lists"):
        OperatorHarness(Rude()).feed_block([1, 2])


def test_an_operator_that_loses_timestamps_is_noticed():
    class Sloppy(Operator):
        def process(self, values, timestamps):
            self.output.emit(values, timestamps[1:])

    with pytest.raises(AssertionError, match="2 values were emitted with 1 timestamps"):
        OperatorHarness(Sloppy()).feed_block([1, 2], [1, 2])


def test_reports_and_metrics_can_be_read():
    op = OperatorHarness(Probe(), name="probe", subtask=1, parallelism=3)
    op.context.report("print", ["x"])
    op.context.metrics.counter("seen").inc()
    assert op.reports == [("print", ["x"])]
    assert op.context.metrics.snapshot() == {"seen": 1}
    assert (op.context.operator, op.context.subtask, op.context.parallelism) == ("probe", 1, 3)
