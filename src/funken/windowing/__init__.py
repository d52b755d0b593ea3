"""The rules of windows, pure: assigners, triggers, evictors, merging. May import ``state``, ``timing`` and what is below."""
