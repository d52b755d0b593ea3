"""The rewrite stage: all rules, in their order, applied once to a compiled plan, on the driver.

The order matters: chains are made first; where state is kept decides what can work on columns; pre-aggregation needs columns;
only loops over single records are fused; and what wraps a spec comes last, so that no rule looks at a wrapped one.

One decision needs more than the program: windows whose restored state is keyed state go on with it. It is made once per
attempt, when the attempt is planned: the stage is applied again to the compiled plan, with what the attempt starts from.

Columns are an optimisation. If a rule fails with them, the plan is made without: a fault of Funken's must not fail a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from funken.columnar.expressions import described, noted
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import FunkenError
from funken.expr.types import Type
from funken.ids import OperatorId
from funken.plan.physical import PhysicalPlan, Rule, RuleContext, RuleNote
from funken.plan.rules import operators, vectorize

RULES: tuple[Rule, ...] = (
    operators.CHAINING,
    operators.ERRORS,
    operators.STATE_BACKEND,
    vectorize.VECTORIZATION,
    vectorize.PROJECTION,
    vectorize.PRE_AGGREGATION,
    operators.FUSION,
    operators.DECLARED_TYPES,
    operators.BATCH_ORDER,
    operators.WORKERS,
)


def rewrite(plan: PhysicalPlan, context: RuleContext, rules: Iterable[Rule] = RULES) -> PhysicalPlan:
    """Apply rules to a compiled plan, each to the result of the one before it.

    >>> [rule.name for rule in RULES]
    ['chaining', 'errors', 'state backend', 'columns', 'projection', 'pre-aggregation', 'fusion',
     'declared types', 'batch order', 'workers']
    """
    notes: list[RuleNote] = []
    names = []
    for rule in rules:
        plan, made = rule.apply(plan, context)
        notes += made
        names.append(rule.name)
    return replace(plan, rules=tuple(names), notes=tuple(notes))


@dataclass(frozen=True)
class RewriteStage:
    """A compiled plan about which nothing is decided yet, and the context of the decisions."""

    compiled: PhysicalPlan
    context: RuleContext

    @staticmethod
    def of(compiled: PhysicalPlan, configuration: Configuration, batch: bool, cores: int | None = None) -> RewriteStage:
        """Read the options; ``batch``: each result is emitted once; ``cores``: of the machine of all workers, if any."""
        return RewriteStage(compiled, RuleContext.of(configuration, batch, cores))

    def plan(self, restored_in_keyed_state: frozenset[str] = frozenset()) -> PhysicalPlan:
        """Return the plan of an attempt, by its initial state."""
        context = replace(self.context, restored_in_keyed_state=restored_in_keyed_state)
        try:
            return rewrite(self.compiled, context)
        except FunkenError:
            raise
        except Exception as error:
            if not context.vectorized:
                raise
            noted(error, "A plan on columns could not be made: ")
            plan = rewrite(self.compiled, replace(context, vectorized=False))
            note = RuleNote("columns", f"off: could not be planned (internal: {described(error)})")
            return replace(plan, notes=tuple(note if each.rule == "columns" else each for each in plan.notes))

    def shapes(self) -> Mapping[OperatorId, Type]:
        """Return the shapes of the records that operators emit, of those that could be traced."""
        before = RULES[: RULES.index(vectorize.VECTORIZATION)]
        return vectorize.shapes(rewrite(self.compiled, self.context, before), self.context)
