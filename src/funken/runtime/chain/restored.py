"""Warnings on restored state that the program does not find: states under new names, and keys of another type.

Both leave the old state unread, and nothing fails. They are looked for once, when the operators of a chain are open and
when the first block arrives, so records cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from funken.columnar.block import Block
from funken.operators.base import OperatorContext
from funken.operators.user_functions import UserFunction
from funken.types.callables import shown_function

_SAMPLE = 100


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
    restored = {_kind(key): key for key in keys}

    def compare(block: Block) -> None:
        try:
            records = block[:_SAMPLE].rows()[0] if len(block) == block.records else []
            current = {_kind(key): key for key in map(selector.bind(), records)}
        except Exception:  # noqa: BLE001 - the operator fails at that record too, with all that is to be said
            return
        if current and not any(_alike(one, other) for one in current for other in restored):
            before, now = next(iter(restored.values())), next(iter(current.values()))
            context.warn(
                "other keys",
                f"its restored state belongs to keys such as {_shown(before)}, but its records have keys such as {_shown(now)}: "
                f"they begin without state. Return keys of the former type from {shown_function(selector.bind())}; or, if the "
                "former state is not needed, give the operator another uid, and leave the state out with "
                "--allow-non-restored-state.",
            )

    return compare


def _states(names: list[str]) -> str:
    return f"state {', '.join(map(repr, sorted(names)))}"


def _shown(key: Any) -> str:
    return f"{key!r:.80} ({type(key).__name__})"


def _kind(key: Any) -> Any:
    """Return an equal object for keys that may be equal: all numbers are of one kind, tuples by their parts."""
    if key is None or isinstance(key, Number):
        return None if key is None else Number
    return tuple(map(_kind, key)) if isinstance(key, tuple) else type(key)


def _alike(one: Any, other: Any) -> bool:
    """Return True if keys of two kinds may belong to one program: ``None`` stands for a key of any type."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    return one is None or other is None or one == other
