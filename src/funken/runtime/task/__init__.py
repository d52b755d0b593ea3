"""The loop of one task, its subtasks and its checkpoints.

May import ``runtime.snapshot``, ``runtime.chain``, ``runtime.flow_control``, ``runtime.exchange`` and what is below; not
``runtime.driver``.
"""
