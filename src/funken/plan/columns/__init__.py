"""Functions, windows, joins and sinks with a form on columns: the decisions behind ``plan/rules/vectorize.py``.

May import ``columnar``, ``connectors``, ``operators`` and ``plan``.
"""
