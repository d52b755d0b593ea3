"""The family of data sets: how its classes make one another.

A data set makes grouped, joined and iterative ones, and each of these makes data sets again. Their modules would import one
another in circles; so a class that a lower module needs is looked up here by name, when it is needed.

>>> family("JoinOperator").__name__
'JoinOperator'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    from funken.dataset.api.iterations import DeltaIteration, IterativeDataSet
    from funken.dataset.api.two_inputs import CoGroupOperator, CrossDataSet, JoinOperator, OuterJoinOperator

_MODULES = {
    "CoGroupOperator": "funken.dataset.api.two_inputs",
    "CrossDataSet": "funken.dataset.api.two_inputs",
    "DeltaIteration": "funken.dataset.api.iterations",
    "IterativeDataSet": "funken.dataset.api.iterations",
    "JoinOperator": "funken.dataset.api.two_inputs",
    "OuterJoinOperator": "funken.dataset.api.two_inputs",
}
"""The modules that define them."""


@overload
def family(name: Literal["CoGroupOperator"]) -> type[CoGroupOperator]: ...
@overload
def family(name: Literal["CrossDataSet"]) -> type[CrossDataSet]: ...
@overload
def family(name: Literal["DeltaIteration"]) -> type[DeltaIteration]: ...
@overload
def family(name: Literal["IterativeDataSet"]) -> type[IterativeDataSet]: ...
@overload
def family(name: Literal["JoinOperator"]) -> type[JoinOperator]: ...
@overload
def family(name: Literal["OuterJoinOperator"]) -> type[OuterJoinOperator]: ...


def family(name: str) -> Any:
    """Return a class of the family by its name."""
    return getattr(import_module(_MODULES[name]), name)
