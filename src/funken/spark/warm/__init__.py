"""A Spark session that stays warm between runs: the process that has it, and how a run finds, leases and joins it.

Decision 0025. ``client.py`` imports no pyspark at its head: the command line and workers use it. May import ``spark``.
"""
