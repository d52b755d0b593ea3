"""States whose values expire: how long they live, and which records of a block renew their lives.

Lives are measured in processing time, of which a block has one. So some of what a block finds has expired, and nothing expires
within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import FunctionType, MethodType
from typing import Any

from funken.columnar.expressions import Constant, Expression, NotVectorizable
from funken.columnar.recurrence import SET
from funken.columnar.stateful.changes import StateChange, merged
from funken.columnar.stateful.traced import Access, Write
from funken.dataclass import dataclass
from funken.state.descriptors import StateKind
from funken.state.ttl_config import StateTtlConfig, StateTtlConfigBuilder

Guards = tuple[Expression, ...]
_MODULES = ("funken.state.ttl_config", "funken.compat.pyflink.times")


@dataclass(frozen=True)
class StateLifetime:
    """How long (ms) the values of a state live, and whether reads renew that."""

    millis: int
    read_renews: bool


def lifetime_in(handle: Any) -> StateLifetime | None:
    """Return the lifetime that a handle gives to values; ``None`` if they do not expire."""
    rules = getattr(handle, "life", None)
    return None if rules is None else StateLifetime(rules.ttl, rules.renews)


def known_lifetime(attribute: str, kind: StateKind, config: StateTtlConfig | None) -> StateLifetime | None:
    """Return the lifetime of a state, if arrays can keep its values; raise ``NotVectorizable``.

    >>> known_lifetime("count", StateKind.VALUE, StateTtlConfig.new_builder(1000).build())
    StateLifetime(millis=1000, read_renews=False)
    """
    if config is None or not config.is_enabled():
        return None
    if kind is StateKind.LIST:
        raise NotVectorizable(f"has a list {attribute!r} whose items expire one by one")
    if config.get_state_visibility() is not StateTtlConfig.StateVisibility.NeverReturnExpired:
        raise NotVectorizable(f"has a state {attribute!r} that shows what has expired")
    return StateLifetime(config.ttl_millis, config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite)


def makes_lifetimes(called: Any) -> bool:
    """Whether something has to do with the configuration of lifetimes, and may be called, or asked for attributes."""
    if isinstance(called, MethodType):
        return type(called.__self__) is StateTtlConfigBuilder
    if isinstance(called, type | FunctionType):
        return called is timedelta or called.__module__ in _MODULES
    return type(called) in (StateTtlConfig, StateTtlConfigBuilder)


def renewals_of(
    writes: Sequence[Write], accesses: Sequence[Access], lifetimes: Sequence[StateLifetime | None]
) -> tuple[tuple[int, tuple[Guards, ...]], ...]:
    """Return of each state that expires where its life begins anew: it is set, or read as the first thing of a record.

    That is so for one that has a value after the record; of others it does not matter.
    """
    found = []
    for number, lifetime in enumerate(lifetimes):
        guards = [each.guards for each in writes if each.state == number and each.value is not None]
        guards += [each.guards for each in accesses if each.state == number]
        if lifetime is not None and guards:
            changes = merged([StateChange(each, SET, Constant(True)) for each in guards])
            found.append((number, tuple(each.guards for each in changes)))
    return tuple(found)


__all__ = ["StateLifetime", "known_lifetime", "lifetime_in", "makes_lifetimes", "renewals_of"]
