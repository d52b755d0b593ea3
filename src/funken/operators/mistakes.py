"""Mistakes in the source of process functions: of state that changes in place, and of states and tags in the wrong place.

State is isolated: a stored value is a copy, and so is one that was read. A function is read as source once, when it is opened;
nothing is looked at per record. Without source there is no warning. A change in a loop counts as stored if the loop stores.
"""

from __future__ import annotations

import ast
import os
import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import field
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from funken.columnar.bytecode import instructions
from funken.config.configuration import warn
from funken.dataclass import dataclass
from funken.operators.base import OutputTag
from funken.operators.sources import code_of, tree_of
from funken.state.handles import SHARED, State
from funken.types.callables import written

_READS = {"value", "get"}
_WRITES = {"update", "put", "add", "add_all", "put_all", "remove", "clear"}
_STORES = {"update", "put", "add"}
_GROWS = {"append", "appendleft", "extend", "insert", "add", "update", "setdefault"}
_MAKERS = {"get_state", "get_list_state", "get_map_state", "get_reducing_state", "get_aggregating_state"}
_OF_INTEREST = _MAKERS | {"OutputTag"}
_METHODS = _READS | _WRITES | {"contains", "is_empty", "keys", "values", "items"}
_REMEDIES = {
    "method": "takes {name} for a value, but it is a method, which is always true. Call it: {name}().",
    "change": (
        "changes a value of {name} in place and does not store it: a state has copies, so the change is lost. Store the "
        "value after the change, with update(), put() or add()."
    ),
    "object": "takes {name} for a value, but it is the state itself. Read it with value() or get().",
    "assigned": "assigns to {name}, so the state is gone, and no checkpoint has the value. Store it with update() or put().",
    "tag": "yields a record before {name}, a tag, so the pair goes to the main output. The tag comes first: (tag, record).",
}


def source_mistakes(target: Any, call: Callable[..., Any], reads: bool = True) -> Iterator[tuple[str, str]]:
    """Yield the warnings for the source of a method of ``target``, as category and text, one of each kind.

    Without ``reads``, a value that was read may be changed: it is a copy to work with, as in ``on_timer``.

    >>> from types import SimpleNamespace
    >>> list(source_mistakes(SimpleNamespace(), len))
    []
    """
    function = getattr(call, "__func__", None)
    if not isinstance(function, FunctionType):
        return
    attributes = getattr(target, "__dict__", {})
    states = {f"self.{name}" for name, value in attributes.items() if isinstance(value, State)}
    if any(isinstance(value, State) and value.plain is SHARED for value in attributes.values()):
        return
    tags = {name for name, value in function.__globals__.items() if isinstance(value, OutputTag)}
    tags |= {f"self.{name}" for name, value in attributes.items() if isinstance(value, OutputTag)}
    if not states and not tags and not _OF_INTEREST.intersection(function.__code__.co_names):
        return
    said = set()
    for kind, name, line in _mistakes(function.__code__, frozenset(states), frozenset(tags), reads):
        if kind not in said:
            said.add(kind)
            place = f"{os.path.basename(function.__code__.co_filename)}, line {line}"
            yield f"source: {kind}", f"its function {function.__name__!r} ({place}) {_REMEDIES[kind].format(name=name)}"


def changed_result(call: Callable[..., Any]) -> str | None:
    """Return the warning for a function whose result is that of ``append()`` or its like, which is None; else ``None``.

    >>> changed_result(lambda gathered, value: gathered.append(value)).partition(" returns ")[2].partition(",")[0]
    'the result of append()'
    """
    code = code_of(call)
    steps = (
        []
        if code is None
        else [each for each in instructions(code) if each.opname not in ("PRECALL", "CACHE", "PUSH_NULL")]
    )
    results = [steps[at - 1] for at, step in enumerate(steps) if step.opname == "RETURN_VALUE" and at]
    names = [step.argval for step in steps if step.argval in _GIVE_NONE]
    if code is None or len(results) != 1 or not results[0].opname.startswith("CALL") or len(names) != 1:
        return None
    return (
        f"its function {written(code)} returns the result of {names[0]}(), which is None for a list or dict: change the object, "
        "and then return it."
    )


def key_in_tuple(call: Callable[..., Any]) -> str | None:
    """Return the warning for a window function that returns one tuple, which begins with its key: its parts are the results.

    >>> key_in_tuple(lambda key, window, records: (key, len(records))).partition(" returns ")[2].partition(",")[0]
    'a tuple that begins with key'
    >>> key_in_tuple(lambda key, window, records: [(key, len(records))])
    """
    code = code_of(call)
    names = () if code is None else code.co_varnames[1 if hasattr(call, "__func__") else 0 : code.co_argcount]
    if code is None or not names:
        return None
    steps = [
        each for each in instructions(code) if each.opname not in ("RESUME", "PRECALL", "CACHE", "PUSH_NULL", "NOP")
    ]
    first = steps[0].argval[0] if isinstance(steps[0].argval, tuple) else steps[0].argval
    if (
        not steps[0].opname.startswith("LOAD_FAST")
        or first != names[0]
        or [s.opname for s in steps[-2:]] != _TUPLE_RETURNED
    ):
        return None
    return (
        f"its function {written(code)} returns a tuple that begins with {names[0]}, and each part is a result. Return it "
        "in a list, [...], or yield it, if it is one record."
    )


_TUPLE_RETURNED = ["BUILD_TUPLE", "RETURN_VALUE"]


def warn_of_changed(role: str, call: Any) -> None:
    """Warn of a function that returns the result of ``append()`` or its like."""
    fact = changed_result(call)
    if fact is not None:
        warn(f"{role}: {fact}")


_GIVE_NONE = ("append", "extend", "insert", "sort", "reverse", "appendleft")


def random_key(call: Any) -> str | None:
    """Return the warning for a key selector that draws at random, or reads a clock; else ``None``.

    >>> random_key(lambda record: random.randint(0, 9))[:59]
    'its function draws random.randint(): a record has another k'
    >>> random_key(len)
    """
    function = getattr(call, "get_key", call)
    function = getattr(function, "__func__", function)
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        return None
    for name in code.co_names:
        value = function.__globals__.get(name)
        behind = (*code.co_names[code.co_names.index(name) + 1 :], name)
        drawn = next((each for each in behind if each in _DRAWN.get(getattr(value, "__name__", ""), ())), None)
        if isinstance(value, ModuleType) and drawn is not None:
            drawn = f"{name}.{drawn}"
        elif isinstance(getattr(value, "__self__", None), random.Random):
            drawn = name
        else:
            continue
        return (
            f"its function draws {drawn}(): a record has another key each time, also after a restart, so its state is not found "
            "again. Draw in a map() before, and take the key from the record."
        )
    return None


_DRAWN = {
    "random": ("random", "randint", "randrange", "choice", "uniform", "getrandbits"),
    "uuid": ("uuid1", "uuid4"),
    "secrets": ("token_hex", "randbelow", "choice", "token_bytes"),
    "time": ("time", "time_ns"),
}
"""Functions of modules that give another result each time."""


@lru_cache(maxsize=256)
def _mistakes(
    code: CodeType, states: frozenset[str], tags: frozenset[str], reads: bool
) -> tuple[tuple[str, str, int], ...]:
    body = tree_of(code)
    if not isinstance(body, ast.FunctionDef) or not body.args.args:
        return ()
    reader = _Reader(body.args.args[0].arg, states, tags)
    for statement in body.body:
        reader.visit(statement)
    return (*(("change", *each) for each in reader.lost(reads)), *reader.misplaced)


@dataclass
class _Change:
    """A change in place: of a state's value, by the name that it has, within loops."""

    state: str
    line: int
    stored: bool
    loops: tuple[ast.AST, ...]


@dataclass
class _Reader(ast.NodeVisitor):
    """Follows the values of states through a function, in the order of its lines."""

    own: str
    states: Collection[str]
    tags: Collection[str]
    #: states and tags where a value is expected: the kind, the name and the line
    misplaced: list[tuple[str, str, int]] = field(default_factory=list)
    #: by name: the state, and True if the value was stored under this name
    held: dict[str, tuple[str, bool]] = field(default_factory=dict)
    changes: list[_Change] = field(default_factory=list)
    #: the writes: the state, and the loops around
    writes: list[tuple[str, tuple[ast.AST, ...]]] = field(default_factory=list)
    loops: tuple[ast.AST, ...] = ()
    #: variables that are states
    named: set[str] = field(default_factory=set)
    #: methods of the object itself are called, which may store
    helped: bool = False

    def lost(self, reads: bool) -> Iterator[tuple[str, int]]:
        """Yield the lost changes: the state and the line; without ``reads`` those of stored values only."""
        written = {state for state, _ in self.writes}
        for change in self.changes:
            again = any(state == change.state and set(loops) & set(change.loops) for state, loops in self.writes)
            if not again and not self.helped and (change.stored or (reads and change.state not in written)):
                yield change.state, change.line

    def visit_Call(self, node: ast.Call) -> None:
        """Note reads, writes and changes."""
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute):
            return
        holder, name = node.func.value, node.func.attr
        if isinstance(holder, ast.Name) and holder.id == self.own:
            self.helped = True
        elif (state := self._state(holder)) is not None:
            if name in _WRITES:
                self.changes = [each for each in self.changes if each.state != state]
                self.writes.append((state, self.loops))
            if name in _STORES:
                self.held.update((each.id, (state, True)) for each in node.args if isinstance(each, ast.Name))
        elif name in _GROWS:
            self._changed(holder, node.lineno)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Note names of values of states, and changes of items."""
        self.visit(node.value)
        state = self._read(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.held.pop(target.id, None)
                self.named.discard(target.id)
                if isinstance(node.value, ast.Call) and getattr(node.value.func, "attr", "") in _MAKERS:
                    self.named.add(target.id)
                if state is not None:
                    self.held[target.id] = (state, False)
            else:
                made = isinstance(node.value, ast.Call) and getattr(node.value.func, "attr", "") in _MAKERS
                if (kept := self._state(target)) is not None and not made:
                    self.misplaced.append(("assigned", kept, target.lineno))
                self.visit(target)
                self._item_changed(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Note changes of items."""
        self.visit(node.value)
        self._item_changed(node.target)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Note states that are compared; a map state may be asked for a key with ``in``."""
        if not any(isinstance(sign, ast.In | ast.NotIn) for sign in node.ops):
            self._taken(node.left, *node.comparators)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        """Note states as conditions."""
        self._taken(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Note states as conditions."""
        self._taken(node.test)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Note states as conditions."""
        self._taken(node.operand)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Note states as conditions."""
        self._taken(*node.values)
        self.generic_visit(node)

    def visit_Yield(self, node: ast.Yield) -> None:
        """Note states that are results, and tags behind their record."""
        self._taken(node.value)
        if isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
            first, second = map(self._tag, node.value.elts)
            if second is not None and first is None:
                self.misplaced.append(("tag", second, node.lineno))
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        """Note states that are results."""
        self._taken(node.value)
        self.generic_visit(node)

    def _taken(self, *values: ast.AST | None) -> None:
        for value in values:
            if value is None:
                continue
            if (state := self._state(value)) is not None:
                self.misplaced.append(("object", state, value.lineno))  # type: ignore[attr-defined]
            elif isinstance(value, ast.Attribute) and (state := self._state(value.value)) and value.attr in _METHODS:
                self.misplaced.append(("method", f"{state}.{value.attr}", value.lineno))

    def _tag(self, node: ast.AST) -> str | None:
        """Return the tag that an expression is, as it is written."""
        made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "OutputTag"
        text = ast.unparse(node).replace(f"{self.own}.", "self.", 1)
        return text if made or text in self.tags else None

    def visit_Name(self, node: ast.Name) -> None:
        """Forget a name that is bound anew."""
        if isinstance(node.ctx, ast.Store):
            self.held.pop(node.id, None)

    def visit_For(self, node: ast.For) -> None:
        """Read a loop."""
        self._loop(node)

    def visit_While(self, node: ast.While) -> None:
        """Read a loop."""
        self._loop(node)

    def _loop(self, node: ast.AST) -> None:
        before, self.loops = self.loops, (*self.loops, node)
        self.generic_visit(node)
        self.loops = before

    def _item_changed(self, target: ast.AST) -> None:
        if isinstance(target, ast.Subscript | ast.Attribute):
            self._changed(target.value, target.lineno)

    def _changed(self, holder: ast.AST, line: int) -> None:
        if isinstance(holder, ast.Name) and holder.id in self.held:
            state, stored = self.held[holder.id]
            self.changes.append(_Change(state, line, stored, self.loops))
        elif (read := self._read(holder)) is not None:
            self.changes.append(_Change(read, line, False, self.loops))

    def _read(self, node: ast.AST) -> str | None:
        """Return the state that an expression reads a value of, also with a default behind ``or``."""
        if isinstance(node, ast.BoolOp):
            node = node.values[0]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READS:
            return self._state(node.func.value)
        return None

    def _state(self, node: ast.AST) -> str | None:
        """Return the state that an expression is, as it is written: ``self.count``, or a variable."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self.own:
            return f"self.{node.attr}" if f"self.{node.attr}" in self.states else None
        return node.id if isinstance(node, ast.Name) and node.id in self.named else None
