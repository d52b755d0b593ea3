"""Which functions, windows, functions with state and sinks work on columns: what ``plan/rules/vectorize.py`` asks.

May import ``columnar``, ``connectors``, ``operators`` and ``plan``.
"""
