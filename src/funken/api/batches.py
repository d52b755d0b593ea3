"""Functions over whole blocks in a program: what ``map``, ``filter`` and ``map_batches`` make of them."""

from __future__ import annotations

from funken.api.functions import vectorized_call
from funken.columnar.vectorized.functions import BatchFormat, VectorizedFunction, schema_declared, vectorized
from funken.operators.columnar.specs import BatchResult, VectorizedCall
from funken.operators.user_functions import UserFunction


def over_batches(
    call: UserFunction, marked: VectorizedFunction, output_type: object, mask: bool = False
) -> VectorizedCall:
    """Return the operator of a function that returns a value for each record, or a mask; ``output_type`` goes first."""
    if mask:
        return VectorizedCall(call, BatchResult.FILTER, marked.batch_format)
    declared = marked.output_type if output_type is None else output_type
    schema = None if declared is None else schema_declared(declared)
    return VectorizedCall(call, BatchResult.MAP, marked.batch_format, schema)


def of_batches(function: object, output_type: object, batch_format: str) -> VectorizedCall:
    """Return the operator of a function that returns any number of records."""
    found = vectorized_call(function, "map_batches")
    if found is None:
        if not callable(function):
            raise TypeError(f"map_batches() needs a function of one block, but got {function!r}")
        found = UserFunction(function), vectorized(output_type=output_type, batch_format=batch_format)(function)
    call, marked = found
    declared = marked.output_type if output_type is None else output_type
    schema = None if declared is None else schema_declared(declared)
    form = marked.batch_format if batch_format == "numpy" else BatchFormat.of(batch_format)
    return VectorizedCall(call, BatchResult.ANY, form, schema)
