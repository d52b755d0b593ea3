"""DataFrames over what streams have written: for ``to_spark()`` and ``SparkSink``. May import ``spark``."""
