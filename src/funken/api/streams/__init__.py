"""``DataStream`` and its family: keyed, windowed, connected and joined streams, and their sinks.

The classes make one another through ``family.py`` only, so that no two modules import each other. May import ``api.functions``,
``api.jobs``, ``plan`` and what is below.
"""
