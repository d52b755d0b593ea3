"""Windows: one driver, kinds of windows, and what they keep. The plan chooses a faster kind where the result is the same.

May import ``operators``, ``windowing``, ``state`` and what is below.
"""
