"""Windows: one driver, logics, and contents. The plan chooses a faster logic where the result is the same.

May import ``operators``, ``windowing``, ``state`` and what is below.
"""
