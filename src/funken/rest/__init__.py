"""The REST server of a driver: Flink's REST API (v1) over the jobs of this process, and the dashboard.

It knows jobs by ``jobs.ServedJob`` only, and answers from immutable snapshots; the web framework is imported when a server
starts. May import ``runtime.job`` and what is below it.
"""
