"""A task's part in a checkpoint: the state of its operators and channels, taken, materialized and restored.

May import ``runtime.chain``, ``runtime.exchange``, ``checkpoint`` and what is below.
"""
