"""The options of checkpoints, read out of a configuration once and checked against one another."""

from __future__ import annotations

from dataclasses import dataclass

from funken import config
from funken.checkpoint.events import Outcome
from funken.checkpoint.lineage import SnapshotOptions
from funken.checkpoint.steps import Policy
from funken.config import Configuration
from funken.errors import InvalidConfiguration
from funken.ids import Millis

_KEPT_AFTER = {
    "no_externalized_checkpoints": frozenset[Outcome](),
    "delete_on_cancellation": frozenset({Outcome.FAILED}),
    "retain_on_cancellation": frozenset({Outcome.FAILED, Outcome.CANCELLED}),
}


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """What a job's checkpoints are like; ``directory`` is empty if the program names none."""

    policy: Policy
    snapshots: SnapshotOptions
    directory: str
    savepoint_directory: str
    exactly_once: bool
    unaligned: bool
    aligned_timeout: Millis
    restore_path: str
    allow_non_restored: bool

    @staticmethod
    def of(configuration: Configuration) -> CheckpointSettings:
        """Read the options.

        >>> settings = CheckpointSettings.of(Configuration({"execution.checkpointing.interval": "5 s"}))
        >>> settings.policy.interval, settings.exactly_once
        (5000, True)
        """
        get = configuration.get
        interval = get(config.CHECKPOINT_INTERVAL)
        directory = get(config.CHECKPOINT_DIR)
        exactly_once = get(config.CHECKPOINT_MODE) == "exactly_once"
        unaligned = exactly_once and get(config.UNALIGNED)
        if unaligned and get(config.CHECKPOINT_CONCURRENT) > 1:
            raise InvalidConfiguration(
                f"option {config.CHECKPOINT_CONCURRENT.key!r} is {get(config.CHECKPOINT_CONCURRENT)}, but unaligned "
                f"checkpoints are made one at a time. Set it to 1, or {config.UNALIGNED.key!r} to false."
            )
        return CheckpointSettings(
            policy=Policy(
                interval=Millis(interval) if interval > 0 else None,
                min_pause=Millis(get(config.CHECKPOINT_MIN_PAUSE)),
                timeout=Millis(get(config.CHECKPOINT_TIMEOUT)),
                tolerable_failures=get(config.CHECKPOINT_TOLERABLE),
                max_concurrent=get(config.CHECKPOINT_CONCURRENT),
                retained=get(config.CHECKPOINTS_RETAINED),
                kept_after=_KEPT_AFTER[get(config.CHECKPOINT_RETENTION)],
                exclusive=unaligned,
            ),
            snapshots=SnapshotOptions(
                incremental=get(config.CHECKPOINT_INCREMENTAL), inline_below=get(config.CHECKPOINT_INLINE)
            ),
            directory=directory,
            savepoint_directory=get(config.SAVEPOINT_DIR) or directory,
            exactly_once=exactly_once,
            unaligned=unaligned,
            aligned_timeout=Millis(get(config.ALIGNED_TIMEOUT)),
            restore_path=get(config.RESTORE_PATH),
            allow_non_restored=get(config.RESTORE_IGNORING),
        )
