"""Blocks of columns in batch programs, and the operators that work on them.

May import ``dataset.memory``, ``dataset.plan`` and what these may.
"""
