"""The whole way from logical sinks to optimized ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.table.exec_nodes import ExecSink
from funken.table.logical import LogicalSink
from funken.table.rules.changes import Settler
from funken.table.rules.convert import Converter
from funken.table.rules.multi_joins import with_multi_joins
from funken.table.rules.phases import in_mini_batches
from funken.table.rules.pruning import pruned
from funken.table.rules.pushdown import with_filters, with_limits
from funken.table.rules.rewrites import Rewriter
from funken.table.rules.sinks import sink


def optimize(sinks: Sequence[LogicalSink], config: Any, batch: bool = False) -> list[ExecSink]:
    """Return the optimized plans of sinks; what they have in common is one object in all of them."""
    rewriter, converter, settler = Rewriter(), Converter(config, batch), Settler()
    relations = pruned([rewriter.push(root.input) for root in sinks])
    plans = [converter.of(relation) for relation in relations]
    if config.option("table.optimizer.multi-join.enabled") and not batch:
        plans = with_multi_joins(plans)
    roots = [sink(root, plan, settler, config, batch) for root, plan in zip(sinks, plans, strict=True)]
    roots = with_limits(roots, config)
    return with_filters(roots, config) if batch else in_mini_batches(roots, config)
