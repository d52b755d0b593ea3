"""Operators that work on columns. ``specs.py`` is what the plan carries; the others load NumPy, and are imported late.

May import ``columnar``, ``operators``, ``operators.window`` and what is below.
"""
