"""Streams as DataFrames of Spark: a sink that hands over the records of each checkpoint, and the files that they change sides by.

Importing this package imports neither pyspark nor pyarrow. May import ``connectors.files`` and what is below; of ``spark`` it
knows a name, which is imported on the driver.
"""

from funken.connectors.dataframes.sink import SparkSink

__all__ = ["SparkSink"]
