"""SQL's values and functions: types, casts, and one row of a table per built-in function.

PyArrow is imported where it is used. Nothing here knows statements, plans or operators. May import ``expr``,
``types`` and the lowest layers.
"""
