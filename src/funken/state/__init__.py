"""Keyed and operator state: descriptors, handles, time to live, key groups, and the backends that store it.

May import ``types``, ``config`` and what is below.
"""
