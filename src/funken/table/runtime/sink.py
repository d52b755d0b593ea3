"""Sinks whose writers take the blocks of tables as they are."""

from __future__ import annotations

from dataclasses import replace

from funken.columnar.block import Block
from funken.dataclass import dataclass
from funken.operators.base import Operator
from funken.operators.sink import WriterSink, WriterSinkLogic
from funken.operators.traits import OperatorTraits
from funken.table.runtime.block import BlockSchema, as_table


@dataclass(frozen=True)
class TableSink(WriterSink):
    """A sink whose ``write`` is given a ``TableBlock`` as its values."""

    schema: BlockSchema

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns."""
        return replace(super().traits, columnar=True)

    def build(self) -> Operator:
        """Make the logic of one subtask."""
        return TableSinkLogic(self)


class TableSinkLogic(WriterSinkLogic):
    """Hands blocks of tables to a writer."""

    columnar = True

    def __init__(self, spec: TableSink) -> None:
        super().__init__(spec.sink)
        self._schema = spec.schema

    def process_block(self, block: Block) -> None:
        """Write a block."""
        table = as_table(block, self._schema.arrow)
        self.process(table, table.timestamps)  # type: ignore[arg-type]  # the writer takes blocks


__all__ = ["TableSink"]
