"""Rewrites of a plan: each decides how operators run, changes no result, and notes its decisions for ``explain()``.

``stage.py`` has their order. They run on the driver only. May import ``plan``, ``operators``, ``columnar`` and what is below.
"""
