"""Windows whose contents are keyed state, for a backend that holds more than memory does.

The fast logics of ``operators/window/spec.py`` keep their contents as plain objects; the general one keeps everything
in keyed state, and gives the same results. So it runs where state is in files. It can start from what a fast one has
saved (``operators/window/migration.py``); the other way round is not needed: who starts from the general one's state
goes on with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from funken.operators.base import OperatorSpec
from funken.operators.converting import Converting
from funken.operators.join.window_join import WindowJoin
from funken.operators.window.spec import WindowSpec

_OWN_STATE = "_window."
"""How the names of the general logic's states begin."""


def in_keyed_state(spec: OperatorSpec) -> OperatorSpec:
    """Return an operator that keeps all that grows with its keys in keyed state.

    >>> from operator import add
    >>> from funken.operators.user_functions import UserFunction
    >>> from funken.operators.window.contents import Reduced
    >>> from funken.windowing.assigners import TumblingEventTimeWindows
    >>> window = WindowSpec(UserFunction(len), TumblingEventTimeWindows.of(1000), Reduced(UserFunction(add)))
    >>> window.strategy, in_keyed_state(window).strategy
    (<Strategy.ALIGNED: 'aligned'>, <Strategy.GENERAL: 'general'>)
    """
    if isinstance(spec, WindowSpec):
        return replace(spec, general=True)
    if isinstance(spec, WindowJoin):
        return replace(spec, window=replace(spec.window, general=True))
    if isinstance(spec, Converting):
        return replace(spec, spec=in_keyed_state(spec.spec))
    return spec


def was_in_keyed_state(states: Mapping[str, Any]) -> bool:
    """Return, by the names of the saved states, whether they are of the general logic."""
    return any(name.startswith(_OWN_STATE) for name in states)
