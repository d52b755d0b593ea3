"""Warnings on keys and states that do not meet: states under new names, keys of another type than those beside them.

They leave state unread or joins empty, and nothing fails. They are looked for once, when the operators of a chain are open
and when the first block arrives, so records cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funken.columnar.block import Block
from funken.operators.base import OperatorContext
from funken.operators.user_functions import UserFunction
from funken.state.key_kinds import alike, kind_of_key, shown_key
from funken.types.callables import fields_of, shown_function

_SAMPLE = 100
_FEW = 3
"""Fewer records may lack a field by chance."""


def warn_of_new_names(context: OperatorContext) -> None:
    """Warn if an operator that is open has asked for new states, and not for all restored ones."""
    if context.keyed is None or not context.restored:
        return
    unused, new = context.keyed.renamed()
    if unused and new:
        context.warn(
            "renamed state",
            f"its restored {_states(unused)} is asked for by no function, and its {_states(new)} begins empty. A state is found "
            "by the name of its descriptor: if it is the same state, give it its former name.",
        )


def comparison_of_keys(context: OperatorContext, selector: UserFunction) -> Callable[[Block], None] | None:
    """Return a function that compares the keys of a block with restored ones, and warns; ``None`` if there are none."""
    keys = [] if context.keyed is None or not context.restored else context.keyed.some_keys()
    if not keys:
        return None
    restored = {kind_of_key(key): key for key in keys}

    def compare(block: Block) -> None:
        current = _kinds_in(block, selector)
        if current and not any(alike(one, other) for one in current for other in restored):
            before, now = next(iter(restored.values())), next(iter(current.values()))
            context.warn(
                "other keys",
                f"its restored state belongs to keys such as {shown_key(before)}, but its records have keys such as "
                f"{shown_key(now)}: they begin without state. Return keys of the former type from "
                f"{shown_function(selector.bind())}; or, if the former state is not needed, give the operator another uid, "
                "and leave the state out with --allow-non-restored-state.",
            )

    return compare


def comparison_with_fields(context: OperatorContext, selector: UserFunction) -> Callable[[Block], None]:
    """Return a function that warns if ``get()`` of a key selector finds no field in any record of a block."""
    call = selector.bind()
    code = getattr(getattr(call, "__func__", call), "__code__", None)
    asked = {each for each in code.co_consts if isinstance(each, str)} if code and "get" in code.co_names else set()

    def compare(block: Block) -> None:
        if not asked or block.records < _FEW or set(_kinds_in(block, selector)) != {None}:
            return
        records = block[:_SAMPLE].rows()[0]
        if all(isinstance(each, dict) and asked.isdisjoint(each) for each in records):
            context.warn(
                "missing keys",
                f"the key of each of its first {len(records)} records is None, so they all meet: {shown_function(call)} gets "
                f"{', '.join(map(repr, sorted(asked)))}, but a record {fields_of(records[0])}. Correct the name.",
            )

    return compare


def comparison_of_inputs(context: OperatorContext, selectors: Sequence[UserFunction]) -> Callable[[int, Block], bool]:
    """Return a function that takes blocks of both inputs until it can compare their keys, warns, and returns True."""
    seen: dict[int, dict[Any, Any]] = {}

    def compare(index: int, block: Block) -> bool:
        if index not in seen:
            seen[index] = _kinds_in(block, selectors[index])
        if len(seen) < len(selectors):
            return False
        if all(seen.values()) and not any(alike(one, other) for one in seen[0] for other in seen[1]):
            first, second = (shown_key(next(iter(seen[each].values()))) for each in (0, 1))
            one, other = (shown_function(each.bind()) for each in selectors)
            context.warn(
                "keys of the inputs",
                f"its inputs have keys of different types, so records of the two never meet: {first} by {one}, {second} by "
                f"{other}. Convert one of them, as with str() or int(), in its key selector.",
            )
        return True

    return compare


def _kinds_in(block: Block, selector: UserFunction) -> dict[Any, Any]:
    """Return a key for each kind among the first records of a block; none if they are not at hand."""
    try:
        records = block[:_SAMPLE].rows()[0] if len(block) == block.records else []
        return {kind_of_key(key): key for key in map(selector.bind(), records)}
    except Exception:  # noqa: BLE001 - the operator fails at that record too, with all that is to be said
        return {}


def _states(names: list[str]) -> str:
    return f"state {', '.join(map(repr, sorted(names)))}"
