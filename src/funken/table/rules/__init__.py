"""The rules of the planner: from logical plans to optimized ones, with the traits of every operator.

May import the nodes of plans, catalogs, connectors, options and types of ``table``, ``expr``, and lower rooms; not the parser.
"""

from funken.table.rules.convert import optimize

__all__ = ["optimize"]
