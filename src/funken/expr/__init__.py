"""What a function computes, without the records: the paths through it, and how they meet.

May import ``dataclass`` and ``errors`` only. ``columnar`` reads functions with it; the README of the room says how.
"""
