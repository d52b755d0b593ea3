"""A Spark session that stays warm between runs: the process that has it, and how a run finds, leases and joins it.

Decision 0025. ``protocol.py`` and ``home.py`` import no pyspark: the command line and workers use them. May import ``spark``.
"""
