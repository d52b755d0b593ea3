"""The coordinator, as timelines: what happens at which time, and what it answers."""

import pytest

from funken.checkpoint.machine import (
    Acknowledged,
    Answer,
    AttemptFailed,
    AttemptStarted,
    CheckpointMachine,
    Commit,
    CommitFailed,
    Committed,
    Declined,
    Discard,
    FailJob,
    JobOver,
    JobStopped,
    MayRestart,
    NotifyAborted,
    NotifyComplete,
    Outcome,
    Phase,
    Policy,
    Prune,
    Rejected,
    Stop,
    Stored,
    StoreFailed,
    StoreManifest,
    TaskFinished,
    Tick,
    TriggerRequested,
    TriggerSources,
)
from funken.checkpoint.store.completed import SnapshotKind

TASKS = ("source", "count", "sink")


class Timeline:
    """A machine, its time, and what it said since last asked."""

    def __init__(self, started=True, completed=(), next_id=None, **policy):
        self.machine = CheckpointMachine(Policy(**{"interval": 100, "timeout": 1000} | policy), completed, next_id)
        self.now = 0
        self.said = []
        if started:
            self.tell(AttemptStarted(1, TASKS, ("source",)))
            self.take()

    def tell(self, *events):
        for event in events:
            self.said += self.machine.handle(event, self.now)
            self.machine.validate()
        return self

    def at(self, now):
        self.now = now
        return self.tell(Tick())

    def take(self, *kinds):
        """What was said, of these kinds, or all but what a shell does without thinking."""
        said, self.said = self.said, []
        return [command for command in said if isinstance(command, kinds or object) and type(command) is not Commit]

    def ack(self, checkpoint, *tasks, attempt=1):
        return self.tell(*(Acknowledged(attempt, task, checkpoint, f"{task}@{checkpoint}") for task in tasks))

    def complete(self, checkpoint):
        return self.ack(checkpoint, *TASKS).store(checkpoint)

    def store(self, checkpoint):
        return self.tell(Stored(checkpoint), Committed(checkpoint))

    def finish(self, *tasks, attempt=1):
        return self.tell(*(TaskFinished(attempt, task, f"{task} at its end") for task in tasks))

    def story(self, checkpoint):
        return [line.split("ms  ")[1] for line in self.machine.story(checkpoint).splitlines()[1:]]


def handles(checkpoint, *tasks):
    return {task: f"{task}@{checkpoint}" for task in tasks or TASKS}


# ---- a checkpoint


def test_a_checkpoint_from_its_trigger_to_its_end():
    job = Timeline()
    assert job.at(99).take() == []
    assert job.at(100).take() == [TriggerSources(1, 1, ("source",), SnapshotKind.CHECKPOINT)]
    assert job.ack(1, "source", "count").take() == []
    assert job.ack(1, "sink").take() == [StoreManifest(1, SnapshotKind.CHECKPOINT, 1, 100, handles(1), frozenset())]
    assert job.store(1).take() == [NotifyComplete(1, 1, TASKS)]
    assert job.machine.story(1).splitlines() == [
        "checkpoint 1",
        "         100 ms  checkpoint triggered",
        "         100 ms  acked by source",
        "         100 ms  acked by count",
        "         100 ms  acked by sink",
        "         100 ms  ready",
        "         100 ms  storing",
        "         100 ms  complete",
        "         100 ms  committed",
    ]


def test_of_an_unknown_checkpoint_there_is_no_story():
    assert "nothing is known" in Timeline().machine.story(9)


def test_only_so_many_are_retained():
    job = Timeline(retained=2)
    for checkpoint in (1, 2, 3):
        job.at(100 * checkpoint).complete(checkpoint)
    assert job.take(Prune) == [Prune(1)]
    assert job.machine.completed == [2, 3]


def test_what_a_driver_found_when_it_started_is_gone_on_with():
    job = Timeline(started=False, completed=[3, 5], next_id=9, retained=1)
    assert job.tell(AttemptStarted(1, TASKS, ("source",))).take() == [Prune(3)]
    assert job.at(100).take(TriggerSources)[0].checkpoint == 9


def test_a_declined_checkpoint_is_aborted_and_what_was_written_discarded():
    job = Timeline(tolerable_failures=1).at(100).ack(1, "source")
    job.take()
    reason = "count declined: no space"
    assert job.tell(Declined(1, "count", 1, "no space")).take() == [
        NotifyAborted(1, 1, TASKS, reason),
        Discard(1, ("source@1",)),
    ]
    assert job.story(1)[-1] == f"aborted: {reason}"


def test_a_checkpoint_expires():
    job = Timeline(tolerable_failures=1, interval=5000).at(5000).ack(1, "source", "sink")
    assert job.at(5999).take(NotifyAborted) == []
    (aborted,) = job.at(6000).take(NotifyAborted)
    assert aborted.reason == "after 1000 ms there was no answer from count"


def test_a_late_ack_is_normal_and_its_state_discarded():
    job = Timeline(tolerable_failures=1).at(100).tell(Declined(1, "count", 1, "no space"))
    job.take()
    assert job.ack(1, "sink").take() == [Discard(1, ("sink@1",))]
    assert job.ack(77, "sink").take() == [Discard(77, ("sink@77",))]
    assert job.story(1)[-1] == "late ack by sink of attempt 1, discarded"


def test_an_ack_that_comes_twice_counts_once():
    job = Timeline().at(100).ack(1, "source")
    job.take()
    assert job.ack(1, "source").take() == []
    assert job.tell(Acknowledged(1, "source", 1, "other")).take() == [Discard(1, ("other",))]


def test_a_manifest_that_cannot_be_written_aborts():
    job = Timeline(tolerable_failures=1).at(100).ack(1, *TASKS)
    job.take()
    aborted, discard = job.tell(StoreFailed(1, "disk full")).take()
    assert aborted.reason == "its manifest could not be written: disk full"
    assert set(discard.handles) == set(handles(1).values())


def test_while_its_manifest_is_written_a_checkpoint_does_not_expire():
    job = Timeline().at(100).ack(1, *TASKS).at(5000)
    assert job.machine.storing == 1
    assert job.store(1).take(NotifyComplete)


# ---- when one begins


def test_the_interval_is_from_start_to_start():
    job = Timeline()
    assert job.at(100).complete(1).take(TriggerSources)
    assert job.at(199).take(TriggerSources) == []
    assert job.at(200).take(TriggerSources)


def test_one_that_takes_longer_than_the_interval_delays_the_next():
    job = Timeline().at(100).at(350)
    assert [t.checkpoint for t in job.take(TriggerSources)] == [1]
    assert [t.checkpoint for t in job.complete(1).take(TriggerSources)] == [2]
    assert job.at(449).complete(2).take(TriggerSources) == []
    assert job.at(450).take(TriggerSources)


def test_the_minimum_pause_is_from_end_to_start():
    job = Timeline(min_pause=80, max_concurrent=3).at(100)
    job.at(150).complete(1).take()
    assert job.at(229).take(TriggerSources) == []
    assert job.at(230).take(TriggerSources)
    assert job.at(400).take(TriggerSources) == []  # and there is one at a time


def test_the_pause_may_end_after_the_interval():
    job = Timeline(started=False, min_pause=150)
    assert job.tell(AttemptStarted(1, TASKS, ("source",))).at(99).said == []
    assert job.at(100).take(TriggerSources)
    job.at(120).complete(1).take()
    assert job.at(269).take(TriggerSources) == []
    assert job.at(270).take(TriggerSources)


def test_several_may_be_under_way():
    job = Timeline(max_concurrent=2)
    job.at(100).at(200).at(300)
    assert [t.checkpoint for t in job.take(TriggerSources)] == [1, 2]
    assert [t.checkpoint for t in job.complete(1).take(TriggerSources)] == [3]


def test_without_an_interval_one_begins_only_if_asked_for():
    job = Timeline(interval=None)
    assert job.at(10_000).take() == []
    job.tell(TriggerRequested("me", SnapshotKind.CHECKPOINT)).complete(1)
    assert job.take(Answer) == [Answer("me", 1)]


def test_who_asks_while_one_is_under_way_gets_the_next():
    job = Timeline().at(100).tell(TriggerRequested("me", SnapshotKind.CHECKPOINT))
    assert job.complete(1).take(Answer) == []
    assert job.complete(2).take(Answer) == [Answer("me", 2)]


# ---- order


def test_a_newer_one_that_completes_first_aborts_the_older():
    job = Timeline(max_concurrent=2, interval=100).at(100).tell(TriggerRequested("me", SnapshotKind.CHECKPOINT)).at(200)
    job.ack(1, "source").ack(2, *TASKS)
    job.take()
    assert job.store(2).take(NotifyAborted, Discard, NotifyComplete, Answer) == [
        NotifyAborted(1, 1, TASKS, "checkpoint 2 is complete"),
        Discard(1, ("source@1",)),
        Answer("me", 2),
        NotifyComplete(2, 1, TASKS),
    ]
    assert job.machine.failures == 0


def test_manifests_are_written_one_at_a_time_and_in_order():
    job = Timeline(max_concurrent=3).at(100).at(200).at(300)
    job.ack(2, *TASKS).ack(1, *TASKS).ack(3, *TASKS)
    assert [store.checkpoint for store in job.take(StoreManifest)] == [2]
    # 1 is aborted by 2, and 3 is next
    assert [type(c) for c in job.store(2).take(NotifyComplete, StoreManifest, Discard)] == [
        Discard,
        StoreManifest,
        NotifyComplete,
    ]
    assert [c.checkpoint for c in job.store(3).take(NotifyComplete)] == [3]


def test_if_the_newer_one_fails_to_be_stored_the_older_gets_its_turn():
    job = Timeline(max_concurrent=2, tolerable_failures=1).at(100).at(200)
    job.ack(2, *TASKS).ack(1, *TASKS)
    assert [c.checkpoint for c in job.take(StoreManifest)] == [2]
    assert [c.checkpoint for c in job.tell(StoreFailed(2, "x")).take(StoreManifest)] == [1]
    assert [c.checkpoint for c in job.store(1).take(NotifyComplete)] == [1]


# ---- failures


def test_too_many_failures_in_a_row_fail_the_attempt():
    job = Timeline(tolerable_failures=1)
    job.at(100).tell(Declined(1, "count", 1, "x")).at(200).complete(2)
    job.at(300).tell(Declined(1, "count", 3, "x"))
    assert job.take(FailJob) == []
    job.at(400).tell(Declined(1, "count", 4, "y"))
    assert job.take(FailJob) == [FailJob("checkpoint 4 failed, 2 in a row: count declined: y")]
    assert job.at(1000).take() == []  # nothing begins until the attempt is over
    assert job.tell(AttemptFailed(1, "as told")).take() == [MayRestart(2)]


def test_a_failed_attempt_takes_its_checkpoints_along():
    job = Timeline().at(100).ack(1, "source").tell(TriggerRequested("me"))
    job.take()
    commands = job.tell(AttemptFailed(1, "worker killed")).take()
    assert Discard(1, ("source@1",)) in commands
    assert [c.reason for c in commands if isinstance(c, Answer)] == ["savepoint 2: attempt 1 failed: worker killed"]
    assert commands[-1] == MayRestart(None)
    assert not [c for c in commands if isinstance(c, NotifyAborted)]  # there is nobody to tell


def test_what_an_old_attempt_says_is_not_believed():
    job = Timeline().at(100).ack(1, "source").tell(AttemptFailed(1, "x"), AttemptStarted(2, TASKS, ("source",))).at(200)
    job.take()
    assert job.ack(2, "sink", attempt=1).take() == [Discard(2, ("sink@2",))]
    assert job.finish("sink", attempt=1).take() == [Discard(None, ("sink at its end",))]
    assert job.tell(Declined(1, "sink", 2, "x"), AttemptFailed(1, "again")).take() == []
    assert job.machine.phase is Phase.RUNNING
    assert job.ack(2, *TASKS, attempt=2).take(StoreManifest)


def test_ids_are_never_used_again():
    job = Timeline().at(100).tell(AttemptFailed(1, "x"), AttemptStarted(2, TASKS, ("source",))).at(200)
    assert [t.checkpoint for t in job.take(TriggerSources)] == [1, 2]


def test_a_restart_waits_until_a_manifest_that_is_being_written_is_there_or_not():
    job = Timeline().at(100).ack(1, *TASKS)
    job.take()
    assert job.tell(AttemptFailed(1, "x")).take() == []
    assert job.tell(Stored(1)).take(Commit, MayRestart) == []
    assert job.tell(Committed(1)).take() == [MayRestart(1)]

    job = Timeline().at(100).ack(1, *TASKS).tell(AttemptFailed(1, "x"))
    job.take()
    assert job.tell(StoreFailed(1, "disk full")).take() == [Discard(1, tuple(handles(1).values())), MayRestart(None)]


def test_an_attempt_that_never_started_may_be_followed_by_another():
    job = Timeline(started=False).tell(AttemptFailed(1, "no slots"))
    assert job.take() == [MayRestart(None)]
    assert job.tell(AttemptFailed(1, "as was said")).take() == []
    assert job.tell(AttemptFailed(2, "no slots")).take() == [MayRestart(None)]


# ---- commits


def test_tasks_are_told_when_it_is_committed():
    job = Timeline().at(100).ack(1, *TASKS)
    assert Commit(1) in job.tell(Stored(1)).said
    job.take()
    assert job.at(150).take() == []
    assert job.tell(Committed(1)).take() == [NotifyComplete(1, 1, TASKS)]
    assert job.tell(Committed(1)).take() == []


def test_a_commit_that_fails_fails_the_attempt_since_the_next_one_commits_first():
    job = Timeline().at(100).ack(1, *TASKS).tell(Stored(1))
    job.take()
    reason = "checkpoint 1 could not be committed: bucket gone"
    assert job.tell(CommitFailed(1, "bucket gone")).take() == [FailJob(reason)]
    assert job.tell(AttemptFailed(1, reason)).take() == [MayRestart(1)]


def test_a_restart_waits_for_a_commit_whatever_comes_of_it():
    job = Timeline().at(100).ack(1, *TASKS).tell(Stored(1), AttemptFailed(1, "x"))
    assert job.take(MayRestart) == []
    assert job.tell(CommitFailed(1, "bucket gone")).take() == [MayRestart(1)]


def test_if_the_last_commit_fails_the_job_is_over_and_its_checkpoint_kept():
    job = Timeline().finish(*TASKS).tell(Stored(1))
    job.take()
    (over,) = job.tell(CommitFailed(1, "bucket gone")).take()
    assert over == JobOver(None, "checkpoint 1 could not be committed: bucket gone")
    assert job.tell(JobStopped(Outcome.FAILED)).take(Prune) == []


def test_if_the_commit_of_a_stop_fails_who_asked_is_told():
    job = Timeline().tell(TriggerRequested("me", stop=Stop.SUSPEND)).ack(1, *TASKS).tell(Stored(1))
    job.take()
    reason = "checkpoint 1 could not be committed: bucket gone"
    assert job.tell(CommitFailed(1, "bucket gone")).take() == [Answer("me", None, reason), JobOver(1, reason)]


def test_a_job_cancelled_in_its_last_commit_is_over():
    job = Timeline().tell(TriggerRequested("me", stop=Stop.SUSPEND)).ack(1, *TASKS).tell(Stored(1))
    job.take()
    assert job.tell(JobStopped(Outcome.CANCELLED)).take() == [Answer("me", None, "the job has ended (cancelled)")]
    assert job.tell(Committed(1)).take() == [Prune(1)]


# ---- tasks that finish


def test_a_finished_task_takes_part_with_its_final_state():
    job = Timeline().at(100).finish("source").ack(1, "count", "sink")
    (store,) = job.take(StoreManifest)
    assert store.handles == handles(1, "count", "sink") | {"source": "source at its end"}
    assert store.finished == {"source"}
    assert job.store(1).take() == [NotifyComplete(1, 1, ("count", "sink"))]


def test_once_the_sources_have_finished_none_begins_by_itself():
    job = Timeline().finish("source")
    assert job.at(100).take() == []
    assert job.tell(TriggerRequested("me")).take() == [TriggerSources(1, 1, (), SnapshotKind.SAVEPOINT)]


def test_when_all_tasks_have_finished_a_last_checkpoint_makes_it_safe():
    job = Timeline().at(100).complete(1)
    job.take()
    trigger, store = job.finish(*TASKS).take()
    assert trigger == TriggerSources(2, 1, (), SnapshotKind.CHECKPOINT)
    assert store.finished == set(TASKS)
    assert job.store(2).take() == [Prune(1), JobOver()]


def test_the_last_checkpoint_must_succeed():
    job = Timeline(tolerable_failures=100).finish(*TASKS)
    job.take()
    assert job.tell(StoreFailed(1, "disk full")).take(FailJob)


def test_a_savepoint_asked_for_near_the_end_is_still_made():
    job = Timeline().at(100).tell(TriggerRequested("me")).finish(*TASKS)
    assert [c.checkpoint for c in job.take(StoreManifest)] == [2]
    assert job.store(2).take(Answer, StoreManifest, JobOver) == [
        Answer("me", 2),
        StoreManifest(
            3,
            SnapshotKind.CHECKPOINT,
            1,
            100,
            {task: f"{task} at its end" for task in TASKS},
            frozenset(TASKS),
            final=frozenset(TASKS),
        ),
    ]
    assert job.store(3).take(JobOver) == [JobOver()]


def test_without_an_interval_there_is_a_last_one_too_for_what_sinks_prepared():
    job = Timeline(interval=None).finish(*TASKS)
    assert [c.checkpoint for c in job.take(StoreManifest)] == [1]
    assert job.store(1).take(JobOver) == [JobOver()]


def test_a_failure_noticed_after_the_end_changes_nothing():
    job = Timeline().finish(*TASKS).tell(AttemptFailed(1, "connection lost"))
    job.take()
    assert job.store(1).take(NotifyComplete, JobOver, MayRestart) == [JobOver()]


def test_final_states_are_let_go_of_when_no_manifest_is_being_written():
    job = Timeline().at(100).finish("source").ack(1, "count", "sink").tell(AttemptFailed(1, "x"))
    assert job.take(Discard) == []
    assert job.store(1).take(Discard) == [Discard(None, ("source at its end",))]


# ---- savepoints


def test_a_savepoint_begins_at_once_and_goes_where_it_is_told():
    job = Timeline().at(100).tell(TriggerRequested("me", target="file:/s"))
    assert job.take(TriggerSources)[1] == TriggerSources(2, 1, ("source",), SnapshotKind.SAVEPOINT, None, "file:/s")
    assert job.ack(2, *TASKS).take(StoreManifest)[0].target == "file:/s"
    assert job.store(2).take() == [Answer("me", 2)]  # it commits nothing, and leaves 1 alone
    assert job.complete(1).take(NotifyComplete) == [NotifyComplete(1, 1, TASKS)]
    assert job.machine.completed == [1]


def test_beside_unaligned_checkpoints_a_savepoint_waits_its_turn():
    job = Timeline(exclusive=True, max_concurrent=3).at(100).tell(TriggerRequested("me"), TriggerRequested("you"))
    assert [trigger.kind for trigger in job.take(TriggerSources)] == [SnapshotKind.CHECKPOINT]

    job.complete(1)
    assert [trigger.kind for trigger in job.take(TriggerSources)] == [SnapshotKind.SAVEPOINT]
    assert job.at(300).take(TriggerSources) == [], "nor does a checkpoint begin beside a savepoint"
    assert job.complete(2).take(Answer, TriggerSources)[0] == Answer("me", 2)
    assert job.complete(3).take(Answer) == [Answer("you", 3)]
    assert [*job.machine.pending] == [4]


def test_a_savepoint_that_waits_when_the_attempt_fails_is_answered():
    job = Timeline(exclusive=True).at(100).tell(TriggerRequested("me"), AttemptFailed(1, "x"))
    assert job.take(Answer) == [Answer("me", None, "attempt 1 failed: x")]


def test_a_refused_checkpoint_is_none_any_more():
    job = Timeline(started=False, completed=[3, 5], retained=2).tell(Rejected(5, "its file is gone"))
    assert job.machine.completed == [3]
    assert job.story(5) == ["refused: its file is gone"]
    assert job.tell(AttemptStarted(1, TASKS, ("source",))).at(100).take(TriggerSources)[0].checkpoint == 6


def test_a_savepoint_survives_a_newer_checkpoint():
    job = Timeline(max_concurrent=2).tell(TriggerRequested("me")).at(100).complete(2)
    assert job.take(Answer) == []
    assert job.complete(1).take(Answer) == [Answer("me", 1)]


def test_a_savepoint_that_fails_does_not_count():
    job = Timeline().tell(TriggerRequested("me"), Declined(1, "count", 1, "x"))
    assert job.take(Answer, FailJob) == [Answer("me", None, "savepoint 1: count declined: x")]


@pytest.mark.parametrize("stop", Stop)
def test_a_job_stops_with_a_savepoint_which_is_a_checkpoint_too(stop):
    job = Timeline().at(100).tell(TriggerRequested("me", stop=stop))
    assert job.take(TriggerSources)[1] == TriggerSources(2, 1, ("source",), SnapshotKind.SAVEPOINT, stop)
    assert job.at(900).tell(TriggerRequested("you")).take() == [
        Answer("you", None, "the job is being stopped with a savepoint")
    ]
    job.ack(2, *TASKS)
    job.take()
    assert job.tell(Stored(2)).take(object) == [
        NotifyAborted(1, 1, TASKS, "checkpoint 2 is complete"),
    ]
    assert job.machine.completed == [2]
    assert job.tell(TriggerRequested("you"), AttemptFailed(1, "a worker left early")).take() == [
        Answer("you", None, "the job ends")
    ]
    assert job.tell(Committed(2)).take() == [NotifyComplete(2, 1, TASKS), Answer("me", 2), JobOver(2)]


def test_a_drain_may_end_every_task():
    job = Timeline().tell(TriggerRequested("me", stop=Stop.DRAIN)).finish(*TASKS)
    (store,) = job.take(StoreManifest)
    assert store.finished == set()  # they have input left: a job started from here is to read it
    assert job.store(1).take(JobOver, NotifyComplete) == [JobOver(1)]


def test_a_source_that_had_finished_before_a_drain_has_no_input_left():
    job = Timeline().finish("source").tell(TriggerRequested("me", stop=Stop.DRAIN)).finish("count", "sink")
    assert job.take(StoreManifest)[0].finished == {"source"}


def test_if_stopping_fails_a_suspended_job_goes_on():
    job = Timeline().tell(TriggerRequested("me", stop=Stop.SUSPEND)).tell(Declined(1, "count", 1, "x"))
    assert job.take(NotifyAborted, FailJob) == [NotifyAborted(1, 1, TASKS, "count declined: x")]
    assert job.at(100).take(TriggerSources)


def test_if_draining_fails_the_attempt_does_since_its_windows_have_fired():
    job = Timeline().tell(TriggerRequested("me", stop=Stop.DRAIN)).at(1000)
    assert [c.reason for c in job.take(FailJob)] == [
        "savepoint 1, which the job was to be drained with, failed: "
        "after 1000 ms there was no answer from count, sink, source"
    ]


def test_a_savepoint_that_is_there_stops_the_job_even_if_it_failed_meanwhile():
    job = Timeline().tell(TriggerRequested("me", stop=Stop.SUSPEND)).ack(1, *TASKS).tell(AttemptFailed(1, "x"))
    job.take()
    assert job.store(1).take() == [Answer("me", 1), JobOver(1)]


def test_nothing_is_triggered_while_no_attempt_runs():
    job = Timeline(started=False)
    assert job.tell(TriggerRequested("me")).take() == [Answer("me", None, "the job is not running at the moment")]
    job.tell(JobStopped(Outcome.CANCELLED)).take()
    assert job.tell(TriggerRequested("me")).take() == [Answer("me", None, "the job has ended")]


# ---- the end


@pytest.mark.parametrize(
    ("kept", "outcome", "pruned"),
    [
        (frozenset(), Outcome.CANCELLED, [Prune(1)]),
        (frozenset({Outcome.FAILED}), Outcome.FAILED, []),
        (frozenset({Outcome.FAILED}), Outcome.FINISHED, [Prune(1)]),
    ],
)
def test_the_policy_says_what_is_kept_when_the_job_ends(kept, outcome, pruned):
    job = Timeline(kept_after=kept).at(100).complete(1)
    job.take()
    assert job.tell(JobStopped(outcome)).take() == pruned
    assert job.tell(JobStopped(outcome)).take() == []


def test_a_manifest_still_being_written_at_the_end_is_waited_for():
    job = Timeline().at(100).complete(1).at(200).ack(2, *TASKS)
    job.take()
    assert job.tell(JobStopped(Outcome.CANCELLED)).take() == []
    assert job.store(2).take() == [Prune(1), Prune(2)]


def test_a_second_attempt_before_it_may_start_is_a_mistake():
    job = Timeline().at(100).ack(1, *TASKS).tell(AttemptFailed(1, "x"))
    with pytest.raises(AssertionError, match="MayRestart"):
        job.tell(AttemptStarted(2, TASKS, ("source",)))
