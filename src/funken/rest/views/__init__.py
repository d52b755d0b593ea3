"""A snapshot of a job in the form of Flink's REST API: pure functions, without a framework.

May import ``rest.jobs``, ``runtime.job`` and what is below it.
"""
