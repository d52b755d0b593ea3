"""Hadoop's own code: input formats as sources through Spark, mappers and reducers of Hadoop Streaming as functions.

May import what ``connectors`` may. Of pyspark it uses the session that it is given.
"""

from funken.connectors.hadoop.inputs import HadoopInputs
from funken.connectors.hadoop.streaming import StreamingMapper, StreamingReducer

__all__ = ["HadoopInputs", "StreamingMapper", "StreamingReducer"]
