"""Connections between the processes of a job: who is let in, what is encrypted, messages on it, the two ends of the driver's.

May import ``runtime`` and what is below; not pyspark.
"""
