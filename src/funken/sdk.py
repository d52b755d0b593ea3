"""The operator SDK: the imports of a custom operator, besides ``funken`` and ``funken.connectors``.

A *spec* is a frozen dataclass with ``build()``, which makes the operator of one subtask, and perhaps ``coordinator(context)``.
The class of an operator without arguments is its own spec; ``OperatorCall`` is one with arguments.
``stream.transform(name, spec)`` adds it to a program, ``OperatorHarness`` of ``funken.testing`` tests it; the page
docs/guide/connectors.md explains both.

>>> from funken.testing import local
>>> class EveryOther(Operator):
...     def open(self):
...         self.seen = 0
...     def process(self, values, timestamps):
...         first, self.seen = self.seen % 2, self.seen + len(values)
...         self.output.emit(values[first::2], timestamps and timestamps[first::2])
...     def snapshot(self):
...         return self.seen
...     def restore(self, snapshot):
...         self.seen = snapshot
>>> local([1, 2, 3, 4, 5]).transform("thinned", EveryOther).execute_and_collect(limit=3)
[1, 3, 5]

A function of the program is a ``UserFunction`` in an operator: ``open(context)`` gives it its runtime context and its operator
state. ``BlockPredicates`` evaluates simple predicates for a block. ``immutable`` marks classes whose objects need no copies,
``copied_block`` makes copies of records that can be changed. ``check_arguments``, ``check_function``, ``check_methods``,
``check_result`` and ``check_several`` refuse functions and results that an operator cannot use; ``shown_function`` names one,
and ``never_together`` finds two conditions that exclude each other. ``check_kind`` refuses an argument of another type, and
``calling`` and ``dropped_at`` tell a ``__del__`` that a statement drops the result of its call.
``stable_hash`` is the hash of keys, the same in every process.
``normal_key`` and ``normal_keys`` give keys as state looks them up: every NaN is one key. ``load_state`` unpickles a snapshot,
also one of a version whose classes were in other modules.
"""

from funken.api.functions import check_result
from funken.io.shapes import load_state
from funken.operators.base import (
    Operator,
    OperatorCall,
    OperatorContext,
    OperatorSpec,
    Output,
    SideOutput,
    Timestamps,
    Values,
)
from funken.operators.contradictions import never_together
from funken.operators.coordinators import OperatorCoordinator, OperatorCoordinatorContext
from funken.operators.masks import BlockPredicates
from funken.operators.process.keyed_operator import KeyedOperator
from funken.operators.user_functions import UserFunction
from funken.plan.advice import calling, dropped_at
from funken.state.keygroups import normal_key, normal_keys, stable_hash
from funken.types.callables import (
    check_arguments,
    check_function,
    check_kind,
    check_methods,
    check_several,
    shown_function,
)
from funken.types.copying import copied_block, immutable

__all__ = [
    "BlockPredicates",
    "KeyedOperator",
    "Operator",
    "OperatorCall",
    "OperatorContext",
    "OperatorCoordinator",
    "OperatorCoordinatorContext",
    "OperatorSpec",
    "Output",
    "SideOutput",
    "Timestamps",
    "UserFunction",
    "Values",
    "calling",
    "check_arguments",
    "check_function",
    "check_kind",
    "check_methods",
    "check_result",
    "check_several",
    "copied_block",
    "dropped_at",
    "immutable",
    "load_state",
    "never_together",
    "normal_key",
    "normal_keys",
    "shown_function",
    "stable_hash",
]
