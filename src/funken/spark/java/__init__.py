"""The Java that Spark runs on: which one, and how its JVM starts quickly.

May import ``errors``, ``io`` and ``timing`` only.
"""

from funken.spark.java.runtime import ensure_java, home_of, without_vector_module

__all__ = ["ensure_java", "home_of", "without_vector_module"]
