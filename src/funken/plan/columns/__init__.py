"""Which windows and which functions with state work on columns: what ``plan/rules/vectorize.py`` asks.

May import ``columnar``, ``operators`` and ``plan``.
"""
