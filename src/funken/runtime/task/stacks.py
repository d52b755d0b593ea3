"""Stacks of a task's thread, sampled from a thread beside it, and the stacks of all threads.

A sample belongs to the innermost operator on the stack, so that a vertex has a flame graph of its own although one thread runs
all vertices of a task, and several tasks. A stack counts as on the CPU if the thread has run, or was ready to, for most of the
time since the sample before it: so a thread of Flink is RUNNABLE. The interpreter's own frames are read: py-spy, which reads them
from outside, does not tell whose they are.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from funken.ids import Millis
from funken.runtime.chain.log_capture import operator_on
from funken.runtime.messages import (
    CallStack,
    DumpThreads,
    SampleStacks,
    StacksSampled,
    TaskEvent,
    TaskId,
    ThreadsDumped,
    ThreadStack,
)
from funken.timing.clock import SystemClock

EVERY_SECONDS = 0.02
_DEEPEST = 200
_monotonic = SystemClock().monotonic
_OWN = f"{Path(__file__).parents[2]}{os.sep}"


class StackSampler:
    """Samples the thread that makes it; ``sample`` is called by another one.

    >>> import threading
    >>> sampler, ended = StackSampler(), threading.Event()
    >>> found = []
    >>> other = threading.Thread(target=lambda: (found.append(sampler.sample(0.1)), ended.set()))
    >>> other.start(); _ = ended.wait(30)
    >>> any("wait" in each.functions[-1] for each in found[0])
    True
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._schedule = f"/proc/self/task/{threading.get_native_id()}/schedstat"

    def sample(self, seconds: float, wait: Callable[[float], object] | None = None) -> Counter[CallStack]:
        """Return the stacks of the thread within so many seconds, each with the number of samples."""
        wait = wait or threading.Event().wait
        found: Counter[CallStack] = Counter()
        end = _monotonic() + seconds
        at, ran = _monotonic(), self._ran()
        while _monotonic() < end:
            wait(EVERY_SECONDS)
            before, before_ran = at, ran
            at, ran = _monotonic(), self._ran()
            frame = sys._current_frames().get(self._thread)
            if frame is None:
                break
            on_cpu = ran is None or before_ran is None or (ran - before_ran) * 2 >= at - before
            context = operator_on(frame)
            functions = _functions(frame)
            del frame  # it would keep what the function has
            if context is None:
                found[CallStack("", -1, on_cpu, functions)] += 1
            else:
                found[CallStack(context.operator_uid, context.subtask, on_cpu, functions)] += 1
        return found

    def _ran(self) -> float | None:
        """Return the time (s) that the thread has had a core, or waited for one; ``None`` where the system does not tell."""
        try:
            with open(self._schedule, encoding="ascii") as file:
                ran, ready = file.read().split()[:2]
                return (int(ran) + int(ready)) / 1e9
        except (OSError, ValueError, IndexError):
            return None


Look = SampleStacks | DumpThreads
"""The commands that are answered while the thread of a task is at work."""


def answer_in_thread(sampler: StackSampler, task: TaskId, command: Look, send: Callable[[TaskEvent], object]) -> None:
    """Look in a thread of its own, and send the stacks; a driver that has hung up by then gets none."""

    def run() -> None:
        found: TaskEvent
        if isinstance(command, SampleStacks):
            stacks = sampler.sample(command.seconds)
            found = StacksSampled(task, stacks=dict(stacks), ended=Millis(SystemClock().now()))
        else:
            found = ThreadsDumped(task, request=command.request, threads=tuple(thread_stacks()), pid=os.getpid())
        with contextlib.suppress(OSError, ValueError):
            send(found)

    threading.Thread(target=run, name="funken-stacks", daemon=True).start()


def _functions(frame: FrameType | None) -> tuple[str, ...]:
    found: list[str] = []
    while frame is not None and len(found) < _DEEPEST:
        code = frame.f_code
        file = code.co_filename
        place = file.removeprefix(_OWN) if file.startswith(_OWN) else os.path.basename(file)
        found.append(f"{code.co_qualname} ({place}:{frame.f_lineno})")
        frame = frame.f_back
    return tuple(reversed(found))


def thread_stacks() -> list[ThreadStack]:
    """Return the stack of each thread of this process.

    >>> [each.name for each in thread_stacks()][0]
    'MainThread'
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    found = []
    for ident, frame in sorted(frames.items(), key=lambda each: names.get(each[0], "~") != "MainThread"):
        name = names.get(ident, f"thread {ident}")
        lines = [f'"{name}" Id={ident}', *(f"\tat {each}" for each in reversed(_functions(frame)))]
        found.append(ThreadStack(name, "\n".join(lines) + "\n"))
    return found
