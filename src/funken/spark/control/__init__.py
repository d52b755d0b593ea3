"""Connections between the processes of a job: authentication, encryption, messages, and the two ends of a connection.

May import ``runtime`` and what is below; not pyspark.
"""
