"""The source operator after a restore: who reads what first, and how far event time is."""

from funken import DataGeneratorSource, WatermarkStrategy
from funken.connectors.datagen import IndexSplit
from funken.operators.base import OperatorContext, Output
from funken.operators.coordinators import RequestSplits, SplitsDiscovered
from funken.operators.source import SourceSpec

STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)


class Operator:
    """A source operator at work, with what it emits and reports."""

    def __init__(self, splits=(), watermark=None):
        self.values, self.watermarks, self.reports = [], [], []
        self.logic = SourceSpec(DataGeneratorSource(lambda i: i, 9), STAMPED).build()
        output = Output()
        output.emit = lambda values, timestamps: self.values.extend(values)
        output.watermark = self.watermarks.append
        output.idle = lambda idle: None
        context = OperatorContext("source", 0, 1, 8, processing_time=lambda: 0, auto_watermark_interval=10)
        context.report = lambda payload, output: self.reports.append(payload)
        self.logic.setup(context, output)
        if watermark is not None:
            self.logic.current_watermark = watermark
        if splits:
            self.logic.restore(splits)
        self.logic.open()


def test_splits_that_were_under_way_are_read_on():
    operator = Operator([IndexSplit("0/1", 7, 9)])
    operator.logic.add_splits([], no_more=True)

    assert operator.logic.poll(100, now=0) == 0
    assert operator.values == [7, 8]


def test_nothing_is_read_until_it_is_known_whether_there_are_splits_that_nobody_had_read():
    operator = Operator([IndexSplit("1/2", 7, 9, 2)])

    assert operator.logic.poll(100, now=0) > 0
    assert (operator.reports, operator.values) == ([RequestSplits(all_read=False)], [])

    operator.logic.add_splits([IndexSplit("0/2", 0, 9, 2)], no_more=False)
    operator.logic.poll(2, now=0)
    operator.logic.tick(10)
    assert operator.watermarks == [], "the split that is behind holds the watermark back"


def test_a_subtask_without_splits_asks_again_when_there_are_new_ones_or_after_a_while():
    operator = Operator()
    logic, asked = operator.logic, [RequestSplits(all_read=True)]
    assert logic.poll(100, now=0) == 5
    logic.add_splits([], no_more=False)
    assert [logic.poll(100, now=now) for now in (0, 99)] == [5, 5]
    assert operator.reports == asked
    logic.poll(100, now=100)
    assert operator.reports == asked * 2
    logic.add_splits([], no_more=False)
    logic.handle_operator_event(SplitsDiscovered())
    logic.poll(100, now=0)
    assert operator.reports == asked * 3
    logic.add_splits([IndexSplit("0/1", 7, 9)], no_more=False)
    assert [logic.poll(100, now=0) for _ in range(2)] == [0, 5]
    assert operator.reports == asked * 4
    logic.add_splits([], no_more=True)
    assert logic.poll(100, now=0) is None


def test_the_watermark_does_not_go_back():
    operator = Operator([IndexSplit("0/1", 3, 9)], watermark=5)
    operator.logic.add_splits([], no_more=True)
    operator.logic.poll(1, now=0)
    operator.logic.tick(10)
    assert operator.watermarks == []

    operator.logic.poll(100, now=10)
    operator.logic.tick(20)
    assert operator.watermarks == [7]
