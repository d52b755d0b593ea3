"""Functions as expressions, and records as columns: operators on arrays instead of records.

``tracing.py`` reads bytecode into ``expressions.py``, ``typed/inference.py`` finds the types of results, ``recurrence.py``
recognises accumulators; none of them loads NumPy. ``kernels/`` computes. May import ``state.keygroups`` and the lowest layers.
"""
