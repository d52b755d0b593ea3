"""Functions as expressions, and records as columns: what makes an operator run on arrays instead of records.

``tracing.py`` reads bytecode into ``expressions.py``, ``inference.py`` finds the schema of results, ``folds.py`` reads
aggregates; none of them loads NumPy. ``kernels/`` computes. May import ``state.keygroups`` and the lowest layers.
"""
