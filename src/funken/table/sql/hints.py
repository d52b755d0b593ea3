"""Hints of a SELECT that name its relations: STATE_TTL, and LOOKUP for joins with a table outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from funken.config.configuration import warn
from funken.config.values import boolean, integer
from funken.errors import InvalidProgram
from funken.io.durations import duration_ms
from funken.table.logical import Hint, LookupRetry, LookupSettings
from funken.table.sql.scopes import ScopeRelation, fail

_RETRY = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")
_ASYNC = ("output-mode", "capacity", "timeout")
_OPTIONS = ("table", "async", *_ASYNC, *_RETRY, "shuffle")


def check_hints(hints: Iterable[Hint], relations: Sequence[ScopeRelation], tree: Any) -> None:
    """Refuse unknown hints, options that a hint does not have, and names of relations which FROM does not have."""
    for hint in hints:
        check_known(hint, tree)
        if hint.name in _JOINS:
            if not hint.args:
                fail(
                    tree,
                    f"Invalid hint: {hint.name}, expecting at least one table or view specified in hint {hint.name}.",
                )
            names = list(hint.args)
        elif hint.name not in _EXAMPLES:
            continue
        elif hint.name == "LOOKUP":
            names = [_lookup_options(hint, tree)["table"]]
        else:
            names = [name for name, _ in _given(hint, tree)]
        unknown = [name for name in names if not any(_is(relation, name) for relation in relations)]
        if unknown:
            known = ", ".join(_name(relation) for relation in relations) or "none"
            fail(
                tree,
                "The options of following hints cannot match the name of input tables or views: "
                f"`{', '.join(unknown)}` in `{hint.name}`. FROM has: {known}",
            )


def check_known(hint: Hint, tree: Any) -> None:
    """Refuse a hint that there is not."""
    if hint.name not in (*_JOINS, *_EXAMPLES, *_OTHERS):
        known = ", ".join(sorted((*_JOINS, *_EXAMPLES, *_OTHERS)))
        fail(tree, f"Hint: {hint.name} should be registered in the HintStrategyTable. There are: {known}")


_JOINS = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN")
_OTHERS = ("OPTIONS",)
_EXAMPLES = {
    "STATE_TTL": "STATE_TTL('orders' = '1 d').",
    "LOOKUP": "LOOKUP('table' = 'customers', 'async' = 'true').",
}


def lifetime(hints: Iterable[Hint], relation: ScopeRelation | None, tree: Any) -> int | None:
    """Return the lifetime (ms) of the state of a relation, by the first hint that names it."""
    for hint in hints:
        for name, value in hint.options if hint.name == "STATE_TTL" and relation is not None else ():
            if _is(relation, name):  # type: ignore[arg-type]
                return _duration(tree, "STATE_TTL", name, value)
    return None


def lookup_settings(hints: Iterable[Hint], relation: ScopeRelation, tree: Any) -> LookupSettings | None:
    """Return the options of the LOOKUP hint of a relation."""
    for hint in hints:
        if hint.name == "LOOKUP":
            given = _lookup_options(hint, tree)
            if _is(relation, given["table"]):
                return _settings(given, tree)
    return None


def _given(hint: Hint, tree: Any) -> tuple[tuple[str, str], ...]:
    if not hint.options:
        fail(tree, f"Invalid {hint.name} hint: it has no options. Write e.g. {_EXAMPLES[hint.name]}")
    return hint.options


def _lookup_options(hint: Hint, tree: Any) -> dict[str, str]:
    """Return the options of a LOOKUP hint, checked."""
    given = dict(_given(hint, tree))
    unknown = [name for name in given if name not in _OPTIONS]
    if unknown:
        fail(tree, f"Invalid LOOKUP hint: unknown option '{unknown[0]}'. Options are: {', '.join(_OPTIONS)}")
    if "table" not in given:
        fail(tree, "Invalid LOOKUP hint: incomplete required option(s): [Key: 'table']")
    _settings(given, tree)
    return given


def _settings(given: dict[str, str], tree: Any) -> LookupSettings:
    choices = {"output-mode": ("ordered", "allow_unordered"), "retry-predicate": ("lookup_miss",)}
    choices["retry-strategy"] = ("fixed_delay",)
    for name, allowed in choices.items():
        if name in given and given[name].lower() not in allowed:
            fail(tree, f"Invalid LOOKUP hint: '{name}' is '{given[name]}', but must be one of: {', '.join(allowed)}")
    wanted = _parsed(tree, given, "async", boolean)
    if wanted is not True and any(name in given for name in _ASYNC) and "async" in given:
        fail(tree, f"Invalid LOOKUP hint: {', '.join(_ASYNC)} are options of 'async' = 'true'")
    without = [f"'{name}'" for name in ("async", "capacity", "timeout") if name in given]
    if wanted and without:
        warn(
            f"in the LOOKUP hint {', '.join(without)} has no effect here because the keys of a block are looked up at once."
        )
    if _parsed(tree, given, "shuffle", boolean):
        warn(
            "in the LOOKUP hint 'shuffle' has no effect here: each subtask looks its own keys up, a block of them at once."
        )
    return LookupSettings(
        wanted,
        given.get("output-mode", "").lower() == "allow_unordered" if "output-mode" in given else None,
        _parsed(tree, given, "capacity", integer),
        _duration(tree, "LOOKUP", "timeout", given["timeout"]) if "timeout" in given else None,
        _retry(given, tree),
    )


def _retry(given: dict[str, str], tree: Any) -> LookupRetry | None:
    set_ = [name for name in _RETRY if name in given]
    if not set_:
        return None
    missing = [name for name in _RETRY if name not in given]
    if missing:
        fail(
            tree,
            f"Invalid LOOKUP hint: retry options can be both null or all not null, but {', '.join(missing)} is missing",
        )
    attempts = _parsed(tree, given, "max-attempts", integer)
    if attempts is None or attempts <= 0:
        fail(tree, f"Invalid LOOKUP hint: 'max-attempts' must be greater than 0, but is '{given['max-attempts']}'")
    return LookupRetry(_duration(tree, "LOOKUP", "fixed-delay", given["fixed-delay"]), attempts)


def _parsed(tree: Any, given: dict[str, str], name: str, parse: Callable[[Any], Any]) -> Any:
    if name not in given:
        return None
    try:
        return parse(given[name])
    except (ValueError, TypeError) as wrong:
        fail(tree, f"Invalid LOOKUP hint: '{name}' is '{given[name]}': {wrong}")


def _duration(tree: Any, hint: str, name: str, text: str) -> int:
    try:
        found = duration_ms(text)
    except InvalidProgram as wrong:
        fail(tree, f"Invalid {hint} hint: '{name}': {wrong}")
    if found < 0:
        fail(tree, f"Invalid {hint} hint: '{name}' is negative: '{text}'")
    return found


def _name(relation: ScopeRelation) -> str:
    return relation.alias or ".".join(relation.path)


def _is(relation: ScopeRelation, name: str) -> bool:
    """Return True if a hint names a relation: by its alias, else by its table, with or without database."""
    if relation.alias not in {None, *relation.path[-1:]}:
        return name == relation.alias
    parts = tuple(name.split("."))
    return name == relation.alias or (bool(relation.path) and relation.path[-len(parts) :] == parts)
