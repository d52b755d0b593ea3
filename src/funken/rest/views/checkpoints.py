"""The checkpoints of a job as Flink's REST API shows them; pure functions of a snapshot.

A checkpoint is acknowledged per task, so the ``num_subtasks`` of a whole checkpoint counts tasks. All state is what a checkpoint
wrote or kept: ``checkpointed_size`` and ``state_size`` are the same number.
"""

from __future__ import annotations

from collections.abc import Sequence

from funken import config
from funken.errors import RequestRejected
from funken.rest.views.jobs import Json, setting, vertex_id, vertices
from funken.rest.views.vertices import find_vertex
from funken.runtime.job.snapshot import CheckpointsSnapshot, CheckpointStats, JobSnapshot, SubtaskCheckpointStats

_SAVEPOINT = "savepoint"


def statistics(job: JobSnapshot) -> Json:
    """Return ``/jobs/:jobid/checkpoints``."""
    found = job.checkpoints
    done = [each for each in found.history if each.status == "COMPLETED"]
    sizes, durations = [each.size for each in done], [each.duration or 0 for each in done]
    zeros = [0] * len(done)
    return {
        "counts": {
            "restored": found.restores,
            "total": found.completed + found.failed + found.in_progress,
            "in_progress": found.in_progress,
            "completed": found.completed,
            "failed": found.failed,
        },
        "summary": {
            "checkpointed_size": summary(sizes),
            "state_size": summary(sizes),
            "end_to_end_duration": summary(durations),
            "alignment_buffered": summary(zeros),
            "processed_data": summary(zeros),
            "persisted_data": summary(zeros),
        },
        "latest": {
            "completed": _or_none(found.latest_completed),
            "savepoint": _or_none(found.latest_savepoint),
            "failed": _or_none(found.latest_failed),
            "restored": _restored(found),
        },
        "history": [_checkpoint(each) for each in found.history],
    }


def _or_none(checkpoint: CheckpointStats | None) -> Json | None:
    return None if checkpoint is None else _checkpoint(checkpoint)


def _restored(found: CheckpointsSnapshot) -> Json | None:
    restored = found.restored
    if restored is None:
        return None
    return {
        "id": restored.id,
        "restore_timestamp": restored.restored,
        "is_savepoint": restored.kind == _SAVEPOINT,
        "external_path": restored.path,
    }


def _checkpoint(checkpoint: CheckpointStats) -> Json:
    savepoint = checkpoint.kind == _SAVEPOINT
    duration = checkpoint.duration
    if duration is None:
        duration = 0 if checkpoint.latest_ack is None else checkpoint.latest_ack - checkpoint.triggered
    found: Json = {
        "className": checkpoint.status.lower(),
        "id": checkpoint.id,
        "status": checkpoint.status,
        "is_savepoint": savepoint,
        "savepointFormat": "CANONICAL" if savepoint else None,
        "trigger_timestamp": checkpoint.triggered,
        "latest_ack_timestamp": -1 if checkpoint.latest_ack is None else checkpoint.latest_ack,
        "checkpointed_size": checkpoint.size,
        "state_size": checkpoint.size,
        "end_to_end_duration": duration,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": checkpoint.tasks,
        "num_acknowledged_subtasks": checkpoint.acknowledged,
        "checkpoint_type": "SAVEPOINT" if savepoint else "CHECKPOINT",
        "tasks": {},
    }
    if checkpoint.status == "COMPLETED":
        found |= {"external_path": checkpoint.path, "discarded": checkpoint.discarded}
    elif checkpoint.status == "FAILED":
        found |= {"failure_timestamp": checkpoint.ended, "failure_message": checkpoint.failure, "discarded": True}
    return found


def find_checkpoint(job: JobSnapshot, number: int) -> CheckpointStats:
    """Return a checkpoint of the history; raises ``RequestRejected`` (404) if it is not there, or not any more."""
    found = job.checkpoints
    for each in (*found.history, found.latest_completed, found.latest_savepoint, found.latest_failed):
        if each is not None and each.id == number:
            return each
    raise RequestRejected(f"Could not find checkpointing statistics for checkpoint {number}.", 404)


def details(job: JobSnapshot, number: int) -> Json:
    """Return ``/jobs/:jobid/checkpoints/details/:checkpointid``: with the vertices."""
    checkpoint = find_checkpoint(job, number)
    tasks = {}
    for info, _ in vertices(job):
        parts = [part for part in checkpoint.subtasks if part.vertex == info.id]
        tasks[vertex_id(info)] = _task(checkpoint, parts, info.parallelism)
    held_up_by: dict[int, list[int]] = {}
    for vertex, subtask in checkpoint.held_up_by:
        held_up_by.setdefault(vertex, []).append(subtask)
    waits = [
        {"vertex": vertex_id(info), "name": info.name, "subtasks": held_up_by[info.id]}
        for info, _ in vertices(job)
        if info.id in held_up_by
    ]
    return _checkpoint(checkpoint) | {"tasks": tasks, "held-up-by": waits}


def _task(checkpoint: CheckpointStats, parts: Sequence[SubtaskCheckpointStats], parallelism: int) -> Json:
    newest = max((part.acknowledged for part in parts), default=None)
    size = sum(part.size for part in parts)
    return {
        "id": checkpoint.id,
        "status": "COMPLETED" if len(parts) == parallelism else checkpoint.status,
        "latest_ack_timestamp": -1 if newest is None else newest,
        "checkpointed_size": size,
        "state_size": size,
        "end_to_end_duration": -1 if newest is None else newest - checkpoint.triggered,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": parallelism,
        "num_acknowledged_subtasks": len(parts),
    }


def subtasks(job: JobSnapshot, number: int, vertex: str) -> Json:
    """Return ``/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid``."""
    checkpoint = find_checkpoint(job, number)
    info, _ = find_vertex(job, vertex)
    parts = {part.subtask: part for part in checkpoint.subtasks if part.vertex == info.id}
    known = list(parts.values())
    times = [round(part.acknowledged - checkpoint.triggered) for part in known]
    zeros = [0] * len(known)
    sizes = [part.size for part in known]
    return _task(checkpoint, known, info.parallelism) | {
        "summary": {
            "checkpointed_size": summary(sizes),
            "state_size": summary(sizes),
            "end_to_end_duration": summary(times),
            "checkpoint_duration": {
                "sync": summary([round(part.sync_duration) for part in known]),
                "async": summary([round(part.async_duration) for part in known]),
            },
            "alignment": {
                "buffered": summary(zeros),
                "processed": summary(zeros),
                "persisted": summary(zeros),
                "duration": summary([round(part.alignment) for part in known]),
            },
            "start_delay": summary([round(part.start_delay) for part in known]),
        },
        "subtasks": [_subtask(checkpoint, index, parts.get(index)) for index in range(info.parallelism)],
    }


def _subtask(checkpoint: CheckpointStats, index: int, part: SubtaskCheckpointStats | None) -> Json:
    if part is None:
        return {"className": "pending", "index": index, "status": "pending_or_failed"}
    return {
        "className": "completed",
        "index": index,
        "status": "completed",
        "ack_timestamp": part.acknowledged,
        "end_to_end_duration": part.acknowledged - checkpoint.triggered,
        "checkpointed_size": part.size,
        "state_size": part.size,
        "checkpoint": {"sync": round(part.sync_duration), "async": round(part.async_duration)},
        "alignment": {"buffered": 0, "processed": 0, "persisted": 0, "duration": round(part.alignment)},
        "start_delay": round(part.start_delay),
        "unaligned_checkpoint": part.unaligned,
        "aborted": False,
    }


def configuration(job: JobSnapshot) -> Json:
    """Return ``/jobs/:jobid/checkpoints/config``."""
    retention = setting(job, config.CHECKPOINT_RETENTION)
    interval = setting(job, config.CHECKPOINT_INTERVAL)
    return {
        "mode": setting(job, config.CHECKPOINT_MODE),
        "interval": interval if interval > 0 else 2**63 - 1,
        "timeout": setting(job, config.CHECKPOINT_TIMEOUT),
        "min_pause": setting(job, config.CHECKPOINT_MIN_PAUSE),
        "max_concurrent": setting(job, config.CHECKPOINT_CONCURRENT),
        "externalization": {
            "enabled": retention != "no_externalized_checkpoints",
            "delete_on_cancellation": retention != "retain_on_cancellation",
        },
        "state_backend": setting(job, config.STATE_BACKEND),
        "checkpoint_storage": setting(job, config.CHECKPOINT_DIR),
        "unaligned_checkpoints": setting(job, config.UNALIGNED),
        "tolerable_failed_checkpoints": setting(job, config.CHECKPOINT_TOLERABLE),
        "aligned_checkpoint_timeout": setting(job, config.ALIGNED_TIMEOUT),
        "checkpoints_after_tasks_finish": True,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": -1,
        "changelog_storage": None,
    }


def summary(values: Sequence[int]) -> Json:
    """Return minimum, maximum, average and percentiles; all 0 if there are no values.

    >>> found = summary([4, 1, 7])
    >>> found["min"], found["max"], found["avg"], found["p50"], summary([])["p99"]
    (1, 7, 4, 4.0, 0.0)
    """
    if not values:
        return {"min": 0, "max": 0, "avg": 0} | dict.fromkeys(("p50", "p90", "p95", "p99", "p999"), 0.0)
    ordered = sorted(values)
    found: Json = {"min": ordered[0], "max": ordered[-1], "avg": sum(ordered) // len(ordered)}
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
        found[name] = float(ordered[min(len(ordered) - 1, int(share * len(ordered)))])
    return found
