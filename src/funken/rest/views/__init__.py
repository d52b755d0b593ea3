"""What a snapshot of a job looks like in Flink's REST API: pure functions, without a framework.

May import ``rest.jobs``, ``runtime.job`` and what is below it.
"""
