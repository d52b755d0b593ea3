"""Modules under their names of before, for savepoints in which these names are written.

A pickle names each class by its module. Modules that were merged are not there any more, so what reads state asks here.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

_FORMER = """
cep.match_recognize: cep.sql.match_recognize
cep.nfa: cep.compiler cep.decisions
cep.operator: cep.functions
cep.pattern: cep.buffer cep.conditions cep.skip
cep.row_nfa: cep.sql.facts cep.sql.row_nfa cep.sql.row_patterns cep.sql.row_program cep.sql.rows
cep.stream: cep.dynamic cep.entry
checkpoint.incremental: checkpoint.snapshot.incremental checkpoint.snapshot.materialization
checkpoint.machine: checkpoint.events checkpoint.steps
checkpoint.restart_strategy: checkpoint.restart
checkpoint.store.blobs: checkpoint.store.fields checkpoint.store.handles
checkpoint.store.completed: checkpoint.store.manifest
checkpoint.store.databases: checkpoint.store.contents checkpoint.store.shells
columnar.calling: columnar.callables columnar.dependencies
columnar.declared: columnar.folds
columnar.expressions: columnar.faults expr.paths
columnar.flat_maps: columnar.flat_maps.conventions columnar.flat_maps.tracing
columnar.kernels.columns: columnar.kernels.arithmetic columnar.kernels.arrow columnar.kernels.converting
    columnar.loops.converting
columnar.kernels.rowwise: columnar.loops.evaluation columnar.loops.forms
columnar.kernels.text: columnar.kernels.cuts columnar.kernels.patterns columnar.kernels.ropes
columnar.keyed.codec: columnar.keyed.saved_types
columnar.keyed.groups: columnar.keyed.changes columnar.keyed.partials
columnar.keyed.keys: columnar.keyed.owners columnar.keyed.pairs
columnar.keyed.logs: columnar.keyed.intervals columnar.keyed.list_log columnar.keyed.record_log
columnar.recurrence: columnar.lists.results
columnar.stack: columnar.mutation.tracked
columnar.stateful.changes: columnar.stateful.opening
columnar.stateful.tracing: columnar.stateful.uses
columnar.stateful.typed: columnar.stateful.steps
columnar.tracing: columnar.lists.comprehensions columnar.walk
columnar.typed.inference: columnar.flat_maps.emissions
columnar.typed.operations: columnar.lists.calls columnar.mutation.names columnar.typed.matches
    columnar.writing.text_formats
columnar.typed.values: columnar.mutation.typed columnar.writing.json_texts
columnar.vectorized.functions: columnar.vectorized.schemas
columnar.vectorized.results: columnar.vectorized.arguments columnar.vectorized.collected
connectors.base: connectors.context
connectors.dataframes.sink: connectors.dataframes.staging
connectors.datagen: connectors.fields
connectors.delta: connectors.delta.sink connectors.delta.source connectors.delta.table
connectors.elasticsearch: connectors.elasticsearch.client connectors.elasticsearch.sink
connectors.files.file_format: connectors.files.compression connectors.files.paths
connectors.files.line_files: connectors.files.lines
connectors.files.sink: connectors.files.buckets
connectors.formats.arrow: connectors.formats.arrow_batches
connectors.formats.record_types: connectors.formats.stored_types
connectors.hadoop: connectors.hadoop.inputs connectors.hadoop.streaming
connectors.http: connectors.http.service connectors.http.source connectors.http.webhook connectors.http.websocket
connectors.iceberg: connectors.iceberg.catalog connectors.iceberg.sink connectors.iceberg.source
connectors.kafka.connection: connectors.kafka.transactions
connectors.kafka.enumerator: connectors.kafka.offsets
connectors.kafka.reader: connectors.kafka.records
connectors.kafka.sink: connectors.kafka.committer connectors.kafka.transport connectors.kafka.writer
connectors.kinesis: connectors.kinesis.client connectors.kinesis.sink connectors.kinesis.source
connectors.librdkafka.messages: connectors.librdkafka.fetcher connectors.librdkafka.native connectors.librdkafka.runs
connectors.postgresql.database: connectors.postgresql.values
connectors.postgresql.replication: connectors.postgresql.changes
connectors.postgresql.sink: connectors.postgresql.committer
connectors.postgresql.source: connectors.postgresql.cdc_reader connectors.postgresql.snapshot
connectors.rabbitmq.link: connectors.rabbitmq.consumer connectors.rabbitmq.publisher
connectors.rabbitmq.server: connectors.rabbitmq.problems
connectors.rabbitmq.source: connectors.rabbitmq.reader
connectors.reading: connectors.reading.decoding connectors.reading.polled_reader
connectors.redis: connectors.redis.reader connectors.redis.server connectors.redis.sink connectors.redis.source
connectors.schemas: connectors.rows
connectors.sink: connectors.discard
connectors.sql.database: connectors.sql.background connectors.sql.engines connectors.sql.lookup connectors.sql.sqlite
expr.python.table: expr.python.items expr.python.numbers expr.python.objects expr.python.operation expr.python.texts
    expr.python.times
graph.streaming.edge_stream: graph.streaming.aggregation graph.streaming.neighborhoods graph.streaming.running
    graph.streaming.slices
graph.streaming.summaries: graph.streaming.summary_functions graph.streaming.triangles
metrics.registry: metrics.reporter
ml.online: ml.online.learners ml.online.operators ml.online.river
operators.async_io.operator: operators.async_io.queues operators.async_io.requests
operators.async_io.retry: operators.async_io.cache
operators.base: operators.context operators.tags
operators.codegen: operators.codegen.frames operators.codegen.inlining operators.codegen.loops
operators.columnar.path: expr.watch
operators.columnar.specs: operators.stateful.specs
operators.columnar.stateless: operators.columnar.flat_map operators.columnar.source operators.columnar.vectorized
operators.columnar.windows: operators.columnar.counts
operators.coordinators: operators.coordinators.base operators.coordinators.collecting
    operators.coordinators.commit_counts operators.coordinators.committing operators.coordinators.results
    operators.coordinators.source operators.coordinators.source_events operators.coordinators.watermark_alignment
operators.join: operators.join.interval_join operators.join.window_join
operators.masks: operators.codegen.masks
operators.process.keyed_operator: operators.process.contexts
operators.process.one_input: operators.process.dead_letters operators.process.iteration operators.process.keyed_map
operators.process.two_inputs: operators.process.broadcast
operators.source: operators.timestamps
operators.stateful.arrays: operators.stateful.lists operators.stateful.timers
operators.stateful.blocks: operators.stateful.best operators.stateful.evaluating operators.stateful.records
    operators.stateful.units
operators.stateful.joins: operators.stateful.interval_join operators.stateful.window_join
operators.user_functions: operators.missing_results operators.results operators.strides operators.traits
operators.window.contents: operators.window.functions operators.window.reduce_loops
operators.window.driver: operators.window.aligned operators.window.counts operators.window.sessions
operators.window.spec: operators.window.migration
operators.window.triggered: operators.window.contexts operators.window.entries
operators.wrappers: operators.wrappers.converting operators.wrappers.sorted_input
runtime.chain.chain: runtime.chain.backends runtime.chain.contexts runtime.chain.failures runtime.chain.finished_chain
runtime.driver.local_runner: runtime.driver.execution
runtime.exchange.gate: runtime.exchange.feedback_lane runtime.exchange.loop_gate runtime.exchange.valve
    runtime.exchange.wire
runtime.exchange.writers: runtime.exchange.flushing runtime.exchange.hash_writer runtime.exchange.many_keys
runtime.job.states: runtime.job.pressure
runtime.task.state_manager: runtime.snapshot.channel_state runtime.snapshot.materializer
    runtime.snapshot.state_manager runtime.snapshot.task_state
runtime.task.subtasks: runtime.task.task_checkpoints
runtime.task.task: runtime.task.task_loop
state.backend: state.settings
state.delta_tables: state.snapshot_writer
state.descriptors: state.ttl_config
state.handles: state.isolation state.maps
state.key_forms: state.keys.form state.keys.forms
state.keyed: state.converting
state.keygroups: state.keys.normal
state.rocksdb.backend: state.rocksdb.folders state.rocksdb.tables
state.rocksdb.database: state.rocksdb.space
state.rocksdb.layout: state.rocksdb.keys
table.runtime.aggregates: table.runtime.partials
table.runtime.keyed_blocks: table.runtime.order
table.runtime.sink: table.runtime.constraints table.runtime.final
table.runtime.stateless: table.runtime.table_functions
timing.clock: timing.queues
timing.watermarks: timing.event_time_checks
types.row: types.instants
types.text: types.delimited
windowing.assigners: windowing.merging windowing.sessions
windowing.triggers: windowing.continuous
windowing.windows: windowing.firing
"""
"""Under ``funken``: a module of today, and the modules whose classes are in it now."""

FORMER_MODULES: dict[str, str] = {}
"""A module of before, and the module of today that has its classes."""

for _line in _FORMER.replace("\n    ", " ").strip().splitlines():
    _module, _, _names = _line.partition(": ")
    FORMER_MODULES.update({f"funken.{name}": f"funken.{_module}" for name in _names.split()})


def module_now(module: str) -> str:
    """Return the module that has the classes of a module today.

    >>> module_now("funken.state.snapshot_writer"), module_now("decimal")
    ('funken.state.delta_tables', 'decimal')
    """
    return FORMER_MODULES.get(module, module)


class FormerUnpickler(pickle.Unpickler):
    """Finds classes by the module that has them today."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class or function."""
        return super().find_class(module_now(module), name)


def loads(data: bytes | memoryview) -> Any:
    """Unpickle state, also of a version whose modules were others."""
    try:
        return pickle.loads(data)
    except ModuleNotFoundError as error:
        return _again(io.BytesIO(data), error)


def load(stream: io.BytesIO) -> Any:
    """Unpickle the state at the place of a stream, also of a version whose modules were others."""
    place = stream.tell()
    try:
        return pickle.load(stream)
    except ModuleNotFoundError as error:
        stream.seek(place)
        return _again(stream, error)


def _again(stream: io.BytesIO, error: ModuleNotFoundError) -> Any:
    if error.name is None or not error.name.startswith("funken."):
        raise error
    return FormerUnpickler(stream).load()
