"""Records and functions: each operator is a spec, which travels in the plan, and a logic, which runs.

This folder has the contract, the context of an operator, and the simple operators; ``process/``, ``window/`` and ``async_io/``
have the others, ``columnar/`` and ``stateful/`` those on columns. ``user_functions.py`` has the traits of operators. May import
``connectors``, ``columnar``, ``windowing``, ``state``, ``timing``, ``types``, ``metrics`` and what is below.
"""
