"""Whole jobs under a random schedule with faults, in one process and under virtual time.

May import everything but ``spark``, ``cli`` and ``compat``.
"""
