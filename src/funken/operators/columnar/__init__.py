"""Operators on columns. The plan carries ``specs.py``; the others load NumPy, and are imported late.

May import ``columnar``, ``operators``, ``operators.window`` and what is below.
"""
