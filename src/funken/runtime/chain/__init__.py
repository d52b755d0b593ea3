"""The operators of one subtask at work: how they are wired, fused, given their context, and blamed for failures.

May import ``runtime.exchange``, ``plan``, ``operators`` and what is below.
"""
