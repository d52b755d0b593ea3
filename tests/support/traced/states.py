"""Random functions with keyed state, fed with random blocks: what columns give, and keep, is what the functions themselves do.

Operators on columns and on records are given the same blocks, as columns and as rows by turns, and begin again from their
snapshots.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any
from unittest.mock import patch

from funken.columnar.expressions import NotVectorizable
from funken.expr.types import INT, STR, Tuple
from funken.operators.process.one_input import KeyedProcess
from funken.operators.process.two_inputs import KeyedCoProcess
from funken.operators.user_functions import UserFunction
from funken.plan.columns import columnar_of_two, columnar_process
from funken.state.rocksdb.backend import RocksDBBackend, TaskDatabases
from funken.testing.harness import OperatorHarness
from tests.support.traced.functions import Difference
from tests.support.traced.state_programs import StateProgram

_GROUPS = 128
_SPACE: dict[str, Any] = {}
exec("from funken import *", _SPACE)
_SCHEMA = Tuple((INT, INT, STR))
_KEYS = ("record[0]", "record[0]", "(record[0], record[2])", "f'k{record[0]}'")


class StateFuzzer:
    """Makes cases, and tells those in which columns and records differ; ``counts`` says what became of all of them."""

    def __init__(
        self, seed: int = 0, expiring: float = 0.3, declaring: float = 0.3, databases: TaskDatabases | None = None
    ) -> None:
        """``expiring``: how many of the functions have states that expire; ``declaring``: how many have some with a type.

        With ``databases``, state is in RocksDB.
        """
        self._databases = databases
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self._seed, self._expiring, self._declaring = seed, expiring, declaring

    def run(self, case: int) -> Difference | None:
        """Run a case; return what is wrong."""
        dice = random.Random(f"state/{self._seed}/{case}")
        two = dice.random() < 0.3
        timers = random.Random(f"timers/{self._seed}/{case}").random() < 0.4
        lives = random.Random(f"lives/{self._seed}/{case}")
        expires = lives.random() < self._expiring
        types = random.Random(f"types/{self._seed}/{case}")
        declares = types.random() < self._declaring
        source = (
            StateProgram(dice, timers, lives if expires else None, types if declares else None).source(two)
            + f"\nkey = lambda record: {dice.choice(_KEYS)}"
        )
        space = dict(_SPACE)
        exec(source, space)
        try:
            fact = self._compared(space["Function"], space["key"], two, dice, lives if expires else None)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            fact = f"{type(error).__name__}: {error}"
        return None if fact is None else Difference(case, source, fact)

    def _compared(
        self, function: Any, key: Any, two: bool, dice: random.Random, lives: random.Random | None
    ) -> str | None:
        def in_rows() -> Any:
            call, keys = UserFunction(function(), rich=True), (UserFunction(key), UserFunction(key))
            return KeyedCoProcess(call, *keys) if two else KeyedProcess(call, keys[0])

        def on_columns() -> Any:
            return columnar_of_two(in_rows(), [_SCHEMA, _SCHEMA])[0] if two else columnar_process(in_rows(), _SCHEMA)[0]

        try:
            made = on_columns()
        except NotVectorizable as refused:
            self.counts["per record"] += 1
            self.refusals[str(refused)] += 1
            return None
        from funken.operators.columnar import path as watch
        from funken.operators.stateful import blocks, logic

        rounds = dice.choice((blocks._ROUNDS, dict.fromkeys((False, True), (1000, 1))))
        small, most = dice.choice((0, 0, 20)), 2 if self._databases else 1 << 17
        with (
            patch.object(blocks, "_ROUNDS", rounds),
            patch.object(watch, "FEW", small),
            patch.object(logic, "_MOST_SLOTS", most),
        ):
            fires = made.on_columns.on_timer
            in_order = fires is None or not fires.typed.timers
            columns, records = (_Driven(each, in_order, self._databases) for each in (made, in_rows()))
            try:
                return self._driven(columns, records, two, dice, lives)
            finally:
                columns.close()
                records.close()

    def _driven(
        self, columns: _Driven, records: _Driven, two: bool, dice: random.Random, lives: random.Random | None
    ) -> str | None:  # fmt: skip
        for _ in range(dice.randrange(1, 8)):
            later = lives.choice((0, 0, 1, 3, 9)) if lives else 0
            for each in (columns, records):
                each.pass_time(later)
            if dice.random() < 0.3:
                at = dice.randrange(80)
                for each in (columns, records):
                    each.watermark(at)
                if columns.given != records.given or columns.failed != records.failed:
                    facts = f"columns give {columns.given} {columns.failed}, records {records.given} {records.failed}"
                    return f"{facts}, at watermark {at}"
                if columns.failed is not None:
                    return None
            length = dice.choice((1, 5, 30))
            wild = dice.random() < 0.2
            block = [(dice.randrange(3), _number(dice, wild), dice.choice("abc")) for _ in range(length)]
            stamps = [dice.randrange(50) for _ in block]
            as_columns, second = dice.random() < 0.85, two and dice.random() < 0.5
            for each in (columns, records):
                each.step(block, stamps, as_columns and each is columns, second)
            if columns.failed != records.failed:
                return f"columns raise {columns.failed}, records {records.failed}"
            if columns.failed is not None:
                self.counts["raises"] += 1
                return None
            if columns.given != records.given:
                return f"columns give {columns.given}, records {records.given}, for {block}"
            if dice.random() < 0.25:
                if columns.kept() != records.kept():
                    return f"columns keep {columns.kept()}, records {records.kept()}, after {block}"
                columns.restore()
                records.restore()
        if columns.kept() != records.kept():
            return f"columns keep {columns.kept()}, records {records.kept()}"
        self.counts["columns"] += columns.on_columns
        self.counts["rows"] += columns.in_rows
        return None


def _number(dice: random.Random, wild: bool) -> int:
    return dice.choice((2**62, -(2**62), 2**63 - 1)) if wild and dice.random() < 0.2 else dice.randrange(-5, 9)


class _Driven:
    """One of the two operators."""

    def __init__(self, spec: Any, in_order: bool, databases: TaskDatabases | None) -> None:
        self._spec, self._in_order, self._databases = spec, in_order, databases
        self._backend = self._new_backend()
        self._harness = OperatorHarness(spec, keyed=True, backend=self._backend)
        self.given: list[Any] = []
        self.failed: str | None = None
        self.on_columns = self.in_rows = 0

    def step(self, records: list[Any], stamps: list[int], as_columns: bool, second: bool) -> None:
        """Give it a block, of its second input or the first."""
        from funken.columnar.kernels.columns import columns_of

        operator: Any = self._harness.operator
        try:
            if as_columns:
                returns = operator._states.gate.returns
                operator._states.gate.wait = 0
                take = operator.process_second_block if second else operator.process_block
                take(columns_of(records, _SCHEMA, stamps))
                left = operator._states.gate.returns > returns or not len(operator._states._of_key)
                self.on_columns, self.in_rows = self.on_columns + (not left), self.in_rows + left
            elif second:
                self._harness.feed_second_block(records, stamps)
            else:
                self._harness.feed_block(records, stamps)
        except Exception as error:  # noqa: BLE001 - both have to raise it
            self.failed = type(error).__name__
        self._take_given()

    def pass_time(self, millis: int) -> None:
        """Turn the clock forward."""
        self._harness.now += millis

    def watermark(self, at: int) -> None:
        """Let event time come to some ms."""
        try:
            self._harness.watermark(at)
        except Exception as error:  # noqa: BLE001 - both have to raise it
            self.failed = type(error).__name__
        self._take_given()

    def _take_given(self) -> None:
        found = self._harness.output_with_timestamps
        if (
            not self._in_order
        ):  # where timers set others, results of different keys with one time may be in another order
            found.sort(key=lambda each: repr(each[0][0]))
        self.given = list(map(repr, found))
        found.clear()

    def kept(self) -> list[str]:
        """Return all state."""
        for store in self._harness.context.before_snapshot:
            store()
        assert self._harness.context.keyed is not None
        groups = self._harness.context.keyed.snapshot().groups
        return sorted(
            repr((name, key, _sorted(stored)))
            for states in groups.values()
            for name, rows in states.items()
            for key, _, stored in rows
        )

    def restore(self) -> None:
        """Begin again from a snapshot."""
        snapshot = self._harness.snapshot()
        self.close()
        self._backend = self._new_backend()
        self._harness = OperatorHarness.restored(
            self._spec, snapshot, keyed=True, now=self._harness.now, backend=self._backend
        )

    def _new_backend(self) -> RocksDBBackend | None:
        return None if self._databases is None else RocksDBBackend(self._databases, _GROUPS, range(_GROUPS))

    def close(self) -> None:
        """Close the database."""
        if self._backend is not None:
            self._backend.close()


def _sorted(stored: Any) -> Any:
    return sorted(stored.items()) if isinstance(stored, dict) else stored


__all__ = ["StateFuzzer"]
