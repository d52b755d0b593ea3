"""Rewrites of a plan: each decides how operators run, changes no result, and is told by ``explain()``.

May import ``plan``, ``operators``, ``columnar`` and what is below.
"""
