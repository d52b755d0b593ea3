"""Process functions: with one input and two, broadcast, keyed, and on sorted input in batch mode.

May import ``operators`` and what is below.
"""
