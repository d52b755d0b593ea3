"""Window operators: one general logic, and faster ones that are chosen where the result is the same.

May import ``operators``, ``windowing``, ``state`` and what is below.
"""
