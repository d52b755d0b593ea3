"""One window operator as two, on columns and on records, that are given the same."""

from collections.abc import Callable
from typing import Any

from funken import Configuration, DataGeneratorSource, DataStream, StreamExecutionEnvironment, WatermarkStrategy
from funken.columnar.kernels.columns import columns_of
from funken.expr.types import Type
from funken.testing import OperatorHarness

Build = Callable[[DataStream], DataStream]


def planned(build: Build, example: Any, columns: bool = True) -> tuple[Any, str]:
    """Return the spec of a program's last operator, and what is said of columns; ``example(i)`` makes its records."""
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": columns}))
    build(env.from_source(DataGeneratorSource(example, 1), WatermarkStrategy.no_watermarks()))
    plan = env.compile()
    node = plan.vertices[-1].nodes[-1]
    return node.spec, plan.decided("columns", node.id) or ""


class BothWindows:
    """An operator that is on columns, mostly, and one that never is; what they give is compared where that is asked for."""

    def __init__(self, build: Build, example: Any, schema: Type) -> None:
        self.schema = schema
        self.specs = [planned(build, example, columns)[0] for columns in (True, False)]
        assert type(self.specs[0]) is not type(self.specs[1])
        self.tested, self.oracle = (OperatorHarness(spec, keyed=True) for spec in self.specs)
        self.given: list[list[Any]] = [[], []]
        self.on_columns = True

    def give(self, records: list[Any], stamps: list[int] | None = None, columns: bool = True) -> None:
        """Give both a block."""
        if columns:
            self.tested.operator.process_block(columns_of(records, self.schema, stamps))
        else:
            self.tested.feed_block(records, stamps)
        self.oracle.feed_block(records, stamps)

    def watermark(self, watermark: int) -> None:
        """Give both a watermark."""
        self.tested.watermark(watermark)
        self.oracle.watermark(watermark)

    def restore(self, on_columns: bool) -> None:
        """Go on from a snapshot, on columns or on records."""
        self.on_columns = on_columns
        self.tested = self._again(0, self.tested, self.specs[not on_columns])
        self.oracle = self._again(1, self.oracle, self.specs[1])

    def _again(self, number: int, harness: OperatorHarness, spec: Any) -> OperatorHarness:
        self.given[number] += harness.output_with_timestamps
        operator = spec.build()
        operator.current_watermark = harness.operator.current_watermark
        return OperatorHarness(operator, keyed=True, snapshots=[harness.snapshot()])

    def results(self) -> list[str]:
        """Return what both have given so far, which is the same."""
        one, other = (
            [*given, *harness.output_with_timestamps]
            for given, harness in zip(self.given, (self.tested, self.oracle), strict=True)
        )
        assert list(map(repr, one)) == list(map(repr, other))
        return list(map(repr, one))

    def kept(self) -> list[str]:
        """Return the rows of their snapshots, which are the same."""
        rows = []
        for harness in (self.tested, self.oracle):
            keyed = harness.snapshot()["keyed"]
            groups = {} if keyed is None else keyed.groups
            rows.append(
                sorted(f"{name} {row!r}" for states in groups.values() for name, kept in states.items() for row in kept)
            )
        assert rows[0] == rows[1]
        return rows[0]

    @property
    def returns(self) -> int:
        """How often the operator on columns has gone over to records."""
        operator: Any = self.tested.operator
        found: int = operator.arrays.gate.returns
        return found
