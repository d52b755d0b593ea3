"""Rolling aggregates on keyed streams: reduce, sum, min, max, min_by, max_by.

In STREAMING every record gives the aggregate so far (the first record unchanged); in BATCH each key gives its final
value once, at the end of the input, with the highest timestamp seen.

Aggregates are keyed state in two layers (``state/delta_tables.py``): a dict that takes all writes and most reads holds
those written since the last checkpoint. So the hot loop is the same with checkpoints and without, and without them
everything stays in that dict. Where state is in files, which hold more than memory, they are what is behind it: it is
moved there before a checkpoint, and whenever it has many. The loop is generated, with the bodies of key selector and
function in it where they can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from funken.columnar.block import Block, TupleBlock
from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Operator, OperatorContext, Output, Timestamps, Values
from funken.operators.codegen import LoopStep, LoopText, by_field, fields_made, names_of_fields, rows_of_fields
from funken.operators.user_functions import BatchInput, LoopCall, OperatorTraits, UserFunction, check_of_first, shared
from funken.state.backend import FileSnapshotBackend, Table
from funken.state.delta_tables import CopyOnWriteLayer, KeyedDeltaTable
from funken.state.descriptors import StateKind, ValueStateDescriptor
from funken.state.keyed import NO_KEY
from funken.state.keygroups import PLAIN, normal_key
from funken.types.copying import IMMUTABLE, can_change, copied

_MISSING = object()
_MANY = 5000
_RARE = 50
"""Where less than one key of so many is new, looking one up may be dear when it fails."""
_AGGREGATE = ValueStateDescriptor("_rolling.aggregate")


@dataclass(frozen=True)
class RollingReduce:
    """``reduce`` over all records of a key, with the result emitted per record."""

    key: UserFunction
    function: UserFunction

    @property
    def traits(self) -> OperatorTraits:
        """The key, and the loop of a function without state."""
        calls = (LoopCall(self.key, label="key"), LoopCall(self.function, 2))
        loop = () if self.function.rich else calls
        return OperatorTraits(
            keys=(self.key,), batch_input=BatchInput.SORTED_BY_TIME, loop=loop, calls=calls, keeps_type=True
        )

    def build(self) -> Operator:
        """Make the logic."""
        return RollingReduceLogic(self.key, self.function)


class RollingReduceLogic(Operator):
    """Two tables from key to aggregate; the newer one comes first.

    What is emitted is state too. Here it is copied where the function may change it before the block goes out: it has
    changed its first argument, or may do so the next time. The chain copies it for operators that may change it.
    """

    keeps_output = True
    takes_fields = True

    def __init__(self, key: UserFunction, function: UserFunction) -> None:
        self._key = key.bind()
        self._function = function
        self._reduce = function.bind()
        self._check = check_of_first(function)
        self._layers = KeyedDeltaTable()
        #: the state behind ``_new`` where state is in files
        self._in_files: Table | None = None
        self._last: dict[Any, int] = {}
        self._own: Callable[[Any], Any] = copied
        #: the type of results that are taken for what cannot be changed, although it may hold what can
        self._fixed: list[type | None] = [tuple]
        #: the loops, by whether most keys are known and by the form of tuples that come field by field, (): whole records.
        #: None: the functions need the tuples
        self._loops: dict[tuple[bool, tuple[int, ...]], Callable[..., None] | None] = {}
        #: whether nearly all records of the last block had keys that were there already
        self._known = False

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._own = shared if context.object_reuse else copied
        if context.keyed is None:
            return
        if isinstance(context.keyed.backend, FileSnapshotBackend):
            context.before_snapshot.append(self._keep)
        else:
            context.keyed.register(_AGGREGATE.name, StateKind.VALUE, self._layers)

    @property
    def _new(self) -> dict[Any, Any]:
        return self._layers.delta

    @property
    def _kept(self) -> Table | CopyOnWriteLayer:
        return self._layers.base if self._in_files is None else self._in_files

    def _keep(self) -> None:
        """Move new values into the files, if state belongs there."""
        kept = self._in_files
        if kept is not None:
            for key, value in self._new.items():
                kept[key] = value
            self._layers.delta = {}

    def open(self) -> None:
        """Find the state in files, which must not be opened before they are restored; open the user's function."""
        keyed = self.context.keyed
        if keyed is not None and isinstance(keyed.backend, FileSnapshotBackend):
            self._in_files = keyed.state(_AGGREGATE).table
        self._function.open(self.context)
        if self.context.restored and (self._in_files is not None or can_change([*self._layers.whole().values()])):
            self._fixed[0] = None

    def _first(self, value: Any) -> Any:
        """Return the record to emit for a key's first one; if it is a tuple that can be changed, others may be too."""
        own = self._own(value)
        if own is not value:
            self._fixed[0] = None
        return own

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Reduce a block."""
        if self._check is not None:
            self._look_at(values)
        if self.context.batch:
            self._process_batch(values, timestamps)
            return
        if self._function.rich:
            self._process_with_state(values, timestamps)
            return
        loop = self._loop(())
        assert loop is not None
        self._run(loop, values, timestamps)

    def process_block(self, block: Block) -> None:
        """Reduce a block; tuples that came field by field are made for the first records of keys only."""
        if self._check is not None:
            self._look_at(block.rows()[0])
        if type(block) is TupleBlock and not self.context.batch and not self._function.rich:
            loop = self._loop(block.form)
            if loop is not None:
                self._run(loop, rows_of_fields(block), block.timestamps, *block.constants.values())
                return
        self.process(*block.rows())

    def _look_at(self, values: Values) -> None:
        check, self._check = self._check, None
        if check is not None and len(values):
            check(values[0])

    def _loop(self, form: tuple[int, ...]) -> Callable[..., None] | None:
        known = self._known
        if (known, form) not in self._loops:
            self._loops[known, form] = self._generate(known, form)
        return self._loops[known, form]

    def _run(
        self, loop: Callable[..., None], values: Iterable[Any], timestamps: Timestamps, *constants: Any
    ) -> None:  # fmt: skip
        results: list[Any] = []
        state, before = self._new, len(self._new)
        loop(values, state, state.get, self._kept.get, results.append, self._own, self._first, self._fixed, *constants)
        self._known = (len(state) - before) * _RARE < len(results)
        self._keep_if_many()
        self.output.emit(results, timestamps)

    def _generate(self, known: bool, form: tuple[int, ...] = ()) -> Callable[..., None] | None:
        """Make the loop; over tuples field by field if the functions do not need them whole, else ``None``.

        ``known``: nearly all keys are in the newer table.
        """
        names, each, constants = names_of_fields("value", form)
        text = LoopText(
            "reduce",
            ", ".join(["values, state, get, kept, append, own, first, fixed", *constants]),
            self.context.inlining,
        )
        text.name("missing", _MISSING)
        text.name("immutable", IMMUTABLE)
        text.name("_type", type)
        text.name("plain", PLAIN)
        text.name("normal_key", normal_key)
        key = text.step(self, self._key, "value")
        reduce = text.step(self, self._reduce, "old", "value")
        if form:
            of_fields = by_field(key, "value", names), by_field(reduce, "value", names)
            if None in of_fields:
                return None
            key, reduce = cast(tuple[LoopStep, LoopStep], of_fields)
        # Hot: a key, a lookup, the user's function, a store, an append; nothing else.
        text.line(f"for {each} in values:")
        text.line(f"of = {key.expression}", key)
        if known:  # 30 ns instead of 42, but ten times as much where it fails
            text.line("try:")
            text.line("old = state[of]")
            text.dedent()
            text.line(
                f"except ({text.name('_KeyError', KeyError)}, {text.name('_TypeError', TypeError)}): old = missing"
            )
        else:
            text.line("try:")
            text.line("old = get(of, missing)")
            text.dedent()
            text.line(
                f"except {text.name('_TypeError', TypeError)}: old = missing"
            )  # NumPy's ints and decimals cannot be compared
        text.line("if old is missing:")
        text.line("if _type(of) not in plain:")  # a NaN is never found, and is one key
        text.line("of = normal_key(of)")
        text.line("old = get(of, missing)")
        text.dedent()
        text.line("if old is missing: old = kept(of, missing)")
        text.line("if old is missing:")
        text.line(f"state[of] = value = ({', '.join(names)},)" if form else "state[of] = value")
        text.line("append(value if _type(value) in immutable else first(value))")
        text.line("continue")
        text.dedent()
        text.dedent()
        text.line(f"state[of] = new = {reduce.expression}", reduce)
        if fields_made(reduce) is None:  # a tuple that is made here is another one
            text.line("if new is old and _type(new) is not fixed[0] and _type(new) not in immutable: new = own(new)")
        text.line("append(new)")
        return text.compile()

    def _keep_if_many(self) -> None:
        if self._in_files is not None and len(self._new) > _MANY:
            self._keep()

    def _process_with_state(self, values: Values, timestamps: Timestamps) -> None:
        key, reduce, state, kept, store = self._key, self._reduce, self._new, self._kept, self.context.keyed
        results: list[Any] = []
        own = self._own
        for value in values:
            of = key(value)
            if type(of) not in PLAIN:
                of = normal_key(of)
            old = state.get(of, _MISSING)
            if old is _MISSING:
                old = kept.get(of, _MISSING)
            if old is _MISSING:
                new = value
            else:
                if store is not None:
                    store.current_key = of
                new = reduce(old, value)
            state[of] = new
            results.append(own(new) if old is _MISSING or new is old else new)
        self._forget_key()
        self._keep_if_many()
        self.output.emit(results, timestamps)

    def _forget_key(self) -> None:
        if self.context.keyed is not None:
            self.context.keyed.current_key = NO_KEY

    def _process_batch(self, values: Values, timestamps: Timestamps) -> None:
        key, reduce, state, last = self._key, self._reduce, self._new, self._last
        store = self.context.keyed if self._function.rich else None
        for position, value in enumerate(values):
            of = key(value)
            if type(of) not in PLAIN:
                of = normal_key(of)
            old = state.get(of, _MISSING)
            if old is _MISSING:
                old = self._kept.get(of, _MISSING)
            if store is not None:
                store.current_key = of
            state[of] = value if old is _MISSING else reduce(old, value)
            if timestamps is not None:
                last[of] = max(last.get(of, MIN_TIMESTAMP), timestamps[position])
        self._forget_key()

    def watermark(self, watermark: int) -> None:
        """In BATCH: at the end of time emit the result of each key, ahead of the watermark for later operators."""
        if watermark == MAX_WATERMARK and self.context.batch:
            self.emit_final()
        super().watermark(watermark)

    def emit_final(self) -> None:
        """Emit the result of each key."""
        found = {**(self._in_files or {}), **self._layers.whole()}
        stamps = [self._last.get(key, MIN_TIMESTAMP) for key in found] if self._last else None
        if found:
            self.output.emit(list(found.values()), stamps)

    def close(self) -> None:
        """Close the user's function."""
        self._function.close()
