"""The only importer of pyspark: how a physical plan becomes Spark stages, and how its tasks talk to the driver.

May import everything but ``cli``, ``testing`` and ``compat``.
"""
