"""Expressions as data: types, the table of operations, and the paths through a function.

May import ``dataclass`` and ``errors`` only. ``columnar`` reads functions with it; the README of the room says how.
"""
