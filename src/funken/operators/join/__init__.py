"""Joins of two streams: in windows, and by the distance of timestamps.

May import ``operators``, ``operators.window`` and what is below.
"""
