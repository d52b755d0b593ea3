"""Equality of keys: one form for equal keys of any type, from which their hash and their bytes derive; one key for NaN.

May import ``types``, ``config`` and what is below.
"""
