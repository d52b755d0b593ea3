"""Process functions: with one input and two, broadcast, and keyed.

May import ``operators`` and what is below.
"""
