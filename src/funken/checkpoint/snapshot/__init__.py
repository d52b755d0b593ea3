"""How the state of one operator subtask is snapshotted: incrementally, and materialized while the task goes on.

May import ``checkpoint.store``, ``state``, ``io`` and what is below; not the coordinator.
"""
