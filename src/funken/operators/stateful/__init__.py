"""Functions with keyed state, and joins, over columns: a block of records at a time, instead of a record.

``specs.py`` is what the plan carries; the others load NumPy, and are imported late. May import ``columnar``,
``operators.columnar``, ``operators.join``, ``operators.process`` and what is below.
"""
