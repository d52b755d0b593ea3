"""GROUP BY in two phases: what local mini-batches come to, how they are merged, and that the result is that of one phase."""

import pickle
import random

import pytest

from funken.expr.sql.types import BigIntType, VarCharType
from funken.table.logical import AggregateCall
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.group import Bundle, GroupAggregate
from funken.table.runtime.two_phases import GlobalGroupAggregate, LocalGroupAggregate, RowtimeMarks
from funken.table.types import parse_type
from tests.table.runtime.changelogs import Run, materialized, schema

KV = schema("k:s v:i")
LOCAL = BlockSchema(["k", "accumulators"], [VarCharType(100), parse_type("BYTES NOT NULL")])
BIGINT = BigIntType()
CALLS = (
    AggregateCall("COUNT", (), BigIntType(is_nullable=False)),
    AggregateCall("SUM", (1,), BIGINT),
    AggregateCall("MIN", (1,), BIGINT),
    AggregateCall("MAX", (1,), BIGINT),
    AggregateCall("COUNT", (1,), BigIntType(is_nullable=False), distinct=True),
    AggregateCall("SUM", (1,), BIGINT, distinct=True),
)
OUT = BlockSchema(["k", *"abcdef"], [VarCharType(100), *(call.type for call in CALLS)])


class Phases:
    """Local aggregates, each of some of the rows, before a global one."""

    def __init__(self, size, calls=CALLS, retracts=True, locals_=1, latency=0):
        output = BlockSchema(
            ["k", *(f"c{place}" for place in range(len(calls)))], [OUT.types[0], *(c.type for c in calls)]
        )
        bundle = Bundle(size, latency)
        self.locals = [
            Run(LocalGroupAggregate, [KV], LOCAL, keys=(0,), calls=calls, retracts=retracts, bundle=bundle)
            for _ in range(locals_)
        ]
        self.merged = Run(
            GlobalGroupAggregate, [LOCAL], output, source=KV, keys=(0,), calls=calls, retracts=retracts,
            update_before=True, bundle=bundle,
        )  # fmt: skip

    def feed(self, text, of=0):
        self.locals[of].feed(text)
        self.forward(of)

    def forward(self, of=0):
        changes, self.locals[of].changes = self.locals[of].changes, []
        if changes:
            block = LOCAL.block([row for _, row in changes], [kind for kind, _ in changes])
            self.merged.harness.operator.process_block(block)

    def watermark(self, millis):
        for place, local in enumerate(self.locals):
            local.watermark(millis)
            self.forward(place)
        self.merged.watermark(millis)

    def text(self):
        return self.merged.text()


S8 = "+I(a,3) +I(a,5) +I(b,7) -U(a,5) +U(a,4) -D(a,3) -U(a,4) +U(b,4) -D(b,7) -D(b,4)"
SHORT = (CALLS[0], CALLS[1])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (S8, ""),
        (" ".join(S8.split()[:5]), "+I(a,2,7) +I(b,1,7)"),
        ("-D(a,1)", ""),
        ("+I(a,1) -D(a,1) +I(a,2)", "+I(a,1,2)"),
    ],
)
def test_a_mini_batch_changes_each_group_once(changes, expected):
    run = Phases(100, SHORT)
    run.feed(changes)
    run.watermark(1)
    assert run.text() == expected


def test_a_mini_batch_ends_when_it_is_full_and_local_ones_are_not_torn_apart():
    run = Phases(3, SHORT)
    run.feed("+I(a,1) +I(b,2)")
    assert run.text() == ""
    run.feed("+I(a,3)")  # the local one is full: two groups
    assert run.text() == ""
    run.feed("+I(a,1) +I(b,1) +I(c,1)")  # three more do not fit
    assert run.text() == "+I(a,2,4) +I(b,1,2) -U(a,2,4) +U(a,3,5) -U(b,1,2) +U(b,2,3) +I(c,1,1)"


def test_a_mini_batch_ends_after_its_latency():
    run = Phases(1000, SHORT, latency=500)
    run.feed("+I(a,1)")
    assert run.locals[0].harness.operator.next_tick() == 500
    run.locals[0].clock(500)
    run.forward()
    assert run.text() == ""
    run.merged.clock(500)
    assert run.text() == "+I(a,1,1)"


@pytest.mark.parametrize("size", [2, 64])
def test_rows_behind_a_full_mini_batch_wait_for_their_latency_only(size):
    local = Phases(size, SHORT, latency=500).locals[0]
    local.feed(" ".join(f"+I(a,{n})" for n in range(size + 1)), one_by_one=False)
    assert len(local.changes) == 1
    assert local.harness.operator.next_tick() == 500
    local.clock(500)
    assert len(local.changes) == 2


def test_a_barrier_ends_the_mini_batches():
    run = Phases(1000, SHORT)
    run.feed("+I(a,1)")
    local = run.locals[0]
    local.harness.snapshot()
    run.forward()
    run.merged.again()
    assert run.text() == "+I(a,1,1)"


def test_a_subtask_that_had_ended_takes_its_snapshot_before_it_opens():
    run = Phases(1000, SHORT).locals[0]
    operator, opened = run.spec.build(), run.harness.operator
    asked = len(opened.context.before_snapshot)
    operator.setup(opened.context, opened.output)
    for ask in opened.context.before_snapshot[asked:]:
        ask()
    assert run.changes == []


def test_what_one_task_took_back_another_one_had():
    run = Phases(1000, CALLS, locals_=2)
    run.feed("+I(a,3) +I(a,5) +I(a,5)")
    run.watermark(1)
    assert run.text() == "+I(a,3,13,3,5,2,8)"
    run.feed("-D(a,5)", 1)
    run.feed("-U(a,5) +U(a,1)", 0)
    run.watermark(2)
    assert run.text() == "-U(a,3,13,3,5,2,8) +U(a,2,4,1,3,2,4)"
    run.feed("-D(a,1) -D(a,3)", 1)
    run.watermark(3)
    assert run.text() == "-D(a,2,4,1,3,2,4)"


@pytest.mark.parametrize("seed", range(8))
def test_the_result_is_that_of_one_phase(seed):
    rng = random.Random(seed)
    present, texts = [], []
    for _ in range(120):
        if present and rng.random() < 0.4:
            texts.append(f"-D{present.pop(rng.randrange(len(present)))}")
        else:
            row = f"({rng.choice('abc')},{rng.choice(['1', '2', '3', 'N'])})"
            present.append(row)
            texts.append(f"+I{row}")
    one = Run(GroupAggregate, [KV], OUT, keys=(0,), calls=CALLS, retracts=True, update_before=True)
    one.feed(" ".join(texts))
    two = Phases(rng.choice([1, 4, 1000]), CALLS)
    for place, text in enumerate(texts):
        two.feed(text)
        if place % 17 == 0:
            two.watermark(place)
            two.merged.again()
    two.watermark(1000)
    assert materialized(two.merged.changes) == materialized(one.changes)


@pytest.mark.parametrize("retracts", [True, False])
def test_blocks_are_added_up_at_once(retracts):
    calls = CALLS[:2] if retracts else CALLS[:4]
    rng = random.Random(retracts)
    output = BlockSchema(
        [f"c{place}" for place in range(len(calls) + 1)], [OUT.types[0], *(call.type for call in calls)]
    )
    one = Run(GroupAggregate, [KV], output, keys=(0,), calls=calls, retracts=retracts, update_before=True)
    two = Phases(300, calls, retracts)
    present = []
    for _ in range(7):
        rows, kinds = [], []
        for _ in range(rng.choice([1, 50, 400])):
            if retracts and present and rng.random() < 0.4:
                rows.append(present.pop(rng.randrange(len(present))))
                kinds.append(3)
            else:
                present.append((rng.choice(["a", "b", None]), rng.choice([1, 2, None])))
                rows.append(present[-1])
                kinds.append(0)
        for run in (one, two.locals[0]):
            run.harness.operator.process_block(KV.block(rows, kinds))
        two.forward()
    assert two.locals[0].harness.operator._partials is not None
    two.watermark(1)
    assert materialized(two.merged.changes) == materialized(one.changes)


def test_all_rows_are_one_group_of_whole_blocks():
    local = Run(
        LocalGroupAggregate, [KV], BlockSchema(LOCAL.names[1:], LOCAL.types[1:]), keys=(), calls=SHORT, retracts=False,
        bundle=Bundle(1000, 0),
    )  # fmt: skip
    local.feed("+I(a,1) +I(b,2)", one_by_one=False).watermark(1)
    ((_, (stored,)),) = local.changes
    assert pickle.loads(stored) == (2, [2, [3, 2]])


def test_state_of_one_phase_goes_on_in_two():
    one = Run(GroupAggregate, [KV], OUT, keys=(0,), calls=CALLS, retracts=True, update_before=True)
    one.feed("+I(a,3) +I(a,5)")
    two = Phases(1, CALLS)
    merged = two.merged
    merged._start(type(one.harness).restored(merged.spec, one.harness.snapshot(), keyed=True, now=0))
    two.feed("-D(a,5)")
    assert two.text() == "-U(a,2,8,3,5,2,8) +U(a,1,3,3,3,1,3)"


def test_marks_of_event_time_are_held_back_to_whole_intervals():
    run = Run(RowtimeMarks, [KV], KV, interval=1000)
    sent = []
    run.harness.operator.output.watermark = sent.append
    for at in (500, 999, 1200, 2500, 2600, 3999):
        run.harness.operator.watermark(at)
    assert sent == [-1, 999, 1999, 3999]
    assert run.feed("+I(a,1)").text() == "+I(a,1)"
