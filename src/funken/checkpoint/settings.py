"""The options of checkpoints, read out of a configuration once and checked against one another."""

from __future__ import annotations

import logging
from dataclasses import replace

from funken import config
from funken.checkpoint.incremental import SnapshotOptions
from funken.checkpoint.machine import Outcome, Policy
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.ids import Millis
from funken.io.temporary import make_temporary_folder

logger = logging.getLogger(__name__)

_KEPT_AFTER = {
    "no_externalized_checkpoints": frozenset[Outcome](),
    "delete_on_cancellation": frozenset({Outcome.FAILED}),
    "retain_on_cancellation": frozenset({Outcome.FAILED, Outcome.CANCELLED}),
}


def kept_after(retention: str | None, has_id: bool) -> frozenset[Outcome]:
    """Say after which ends a job's checkpoints stay; ``retention`` is the option's value, ``None`` if it is not set.

    A failure of the environment never deletes any, and neither does the end of the program that runs a job with an id,
    which is to resume with it; without an id that is a cancellation. What nobody decided on is kept for a job with an id.

    >>> sorted(outcome.value for outcome in kept_after(None, has_id=False))
    ['lost']
    >>> sorted(outcome.value for outcome in kept_after(None, has_id=True))
    ['cancelled', 'failed', 'lost', 'suspended']
    """
    if retention is None:
        retention = "retain_on_cancellation" if has_id else "no_externalized_checkpoints"
    kept = _KEPT_AFTER[retention] | {Outcome.LOST}
    return kept | {Outcome.SUSPENDED} if has_id or Outcome.CANCELLED in kept else kept


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The settings of a job's checkpoints; ``directory`` is empty if the program names none."""

    policy: Policy
    snapshots: SnapshotOptions
    directory: str
    savepoint_directory: str
    exactly_once: bool
    unaligned: bool
    aligned_timeout: Millis
    restore_path: str
    allow_non_restored: bool
    allow_fresh: bool
    job_id: str
    """The id that the program gives the job; empty if it gives none."""

    def one_at_a_time(self) -> CheckpointSettings:
        """Return the same settings, with a checkpoint or savepoint that waits for the one that is under way.

        The log of a loop ends when the next snapshot of its head begins.
        """
        return replace(self, policy=replace(self.policy, exclusive=True))

    @staticmethod
    def wanted(configuration: Configuration) -> bool:
        """Return True if the options enable checkpoints, or set something that needs them."""
        get = configuration.get
        named = (config.CHECKPOINT_DIR, config.SAVEPOINT_DIR, config.JOB_ID, config.RESTORE_PATH)
        return get(config.CHECKPOINT_INTERVAL) > 0 or any(get(option) for option in named)

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
        job_id = get(config.JOB_ID)
        decided = configuration.contains_key(config.CHECKPOINT_RETENTION.key)
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
                kept_after=kept_after(get(config.CHECKPOINT_RETENTION) if decided else None, bool(job_id)),
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
            allow_fresh=get(config.ALLOW_FRESH_START),
            job_id=job_id,
        )


def placed(settings: CheckpointSettings, job: str) -> tuple[CheckpointSettings, str | None]:
    """Return settings with a directory: that of the program, or a temporary one, to be removed when the job ends."""
    if settings.directory:
        return settings, None
    folder = make_temporary_folder("checkpoints")
    if settings.job_id:
        logger.warning(
            "job %r has the id %r, but nothing to resume from it: its checkpoints are in a temporary folder, and end with it. "
            "Set %s.",
            job, settings.job_id, config.CHECKPOINT_DIR.key,
        )  # fmt: skip
    return replace(settings, directory=folder), folder
