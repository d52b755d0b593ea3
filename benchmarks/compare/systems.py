"""The systems: which script runs a program on them, in which environment, in which variant."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """One column of the tables."""

    name: str
    title: str
    script: str
    environment: str
    variant: str = ""


SYSTEMS = {
    system.name: system
    for system in (
        System("funken", "Funken, opaque lambdas", "funken_python.py", "funken", "lambdas"),
        System("funken-vectorised", "Funken, vectorized", "funken_python.py", "funken", "vectorised"),
        System("funken-mixed", "Funken, one opaque function", "funken_python.py", "funken", "mixed"),
        System("pyflink-process", "PyFlink, process mode", "pyflink_python.py", "pyflink", "process"),
        System("pyflink-thread", "PyFlink, thread mode", "pyflink_python.py", "pyflink", "thread"),
        System("bytewax", "Bytewax", "bytewax_python.py", "bytewax"),
        System("flink-sql", "Flink SQL (JVM)", "flink_sql.py", "pyflink"),
        System("flink-java", "Flink DataStream (Java)", "flink_java.py", "pyflink"),
        System("flink-java-reuse", "the same, object reuse", "flink_java.py", "pyflink", "object-reuse"),
        System("spark", "Spark, native", "spark_streaming.py", "spark", "native"),
        System("spark-transform", "Spark, transformWithState", "spark_streaming.py", "spark", "transform"),
        System("python", "Python alone, no engine", "python_alone.py", "funken"),
        System("kafka-funken", "Funken, opaque lambdas", "kafka_funken.py", "funken", "lambdas"),
        System("kafka-funken-vectorised", "Funken, vectorized", "kafka_funken.py", "funken", "vectorised"),
        System("kafka-latency", "Funken, Kafka to Kafka", "kafka_latency.py", "funken"),
        System("kafka-pyflink-process", "PyFlink, process mode", "kafka_flink.py", "pyflink", "process"),
        System("kafka-pyflink-thread", "PyFlink, thread mode", "kafka_flink.py", "pyflink", "thread"),
        System("kafka-flink-sql", "Flink SQL (JVM)", "kafka_flink.py", "pyflink", "sql"),
        System("kafka-bytewax", "Bytewax", "kafka_bytewax.py", "bytewax"),
        System("kafka-quix", "Quix Streams", "kafka_quix.py", "quix"),
        System("kafka-spark", "Spark, native", "kafka_spark.py", "spark", "native"),
        System("json-funken", "Funken, opaque lambdas", "json_funken.py", "funken", "lambdas"),
        System("json-funken-vectorised", "Funken, vectorized", "json_funken.py", "funken", "vectorised"),
        System("json-funken-dicts", "Funken, vectorized, dicts", "json_funken.py", "funken", "dicts"),
        System("json-flink-sql", "Flink SQL (JVM)", "json_flink.py", "pyflink"),
        System("async", "Funken, enrichment", "funken_enrichment.py", "funken"),
        System("cep", "Funken CEP", "cep_patterns.py", "funken", "funken"),
        System("cep-flink", "Flink CEP (Java)", "cep_patterns.py", "funken", "flink"),
        System("recovery", "Funken, recovery", "funken_recovery.py", "funken"),
    )
}
