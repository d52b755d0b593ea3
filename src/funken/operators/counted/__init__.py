"""Count windows over columns: a block of records at a time, instead of a record. All load NumPy, and are imported late.

May import ``columnar``, ``operators.columnar``, ``operators.window`` and what is below.
"""
