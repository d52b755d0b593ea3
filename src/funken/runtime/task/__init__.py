"""The loop of one task, its subtasks and its checkpoints, and the throttle on its sources.

May import ``runtime.snapshot``, ``runtime.chain``, ``runtime.exchange`` and what is below; not ``runtime.driver``.
"""
