"""``funken demo --chaos``: a stream of payments whose workers are killed, by a key or a timer, drawn live.

What is drawn is what tasks report twice a second; the verdict at the end compares what the sink committed with the generator's
own record (``fraud.py``). A worker is killed with SIGKILL: it can say nothing and clean up nothing.
"""

from __future__ import annotations

import io
import os
import re
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from funken.api.jobs.client import JobClient
from funken.dataclass import dataclass
from funken.metrics.registry import merge, percentile
from funken.runtime.job.states import JobStatus

SAMPLE_SECONDS = 0.25
WIDTH = 72
"""So many samples are drawn at most."""
_MARGIN = 20
_RATE_SECONDS = 1.0
_BLOCKS = " ▁▂▃▄▅▆▇█"
_AFTER_SECONDS = 6.0
KILL_AFTER = 5.0
"""Without a terminal, a worker is killed once, this long (s) after the first records."""


@dataclass(frozen=True, slots=True)
class RateSample:
    """The figures at one time (s): payments read so far in this attempt, their rate, latency (ms), alarms."""

    at: float
    records: int
    rate: float
    p99: float | None
    restarts: int


@dataclass
class Timeline:
    """The samples of a run and its disturbances; time (s) is an argument.

    >>> timeline = Timeline()
    >>> for second, records in enumerate([0, 1000, 2000]):
    ...     timeline.sample(second, records, {}, restarts=0)
    >>> timeline.killed(2.5, 4711)
    >>> timeline.sample(3, 2000, {}, restarts=0)
    >>> timeline.sample(4, 0, {}, restarts=1)
    >>> timeline.sample(4.5, 600, {}, restarts=1)
    >>> timeline.samples[2].rate, timeline.samples[3].rate, timeline.samples[4].rate
    (1000.0, 0.0, 0.0)
    >>> timeline.recoveries
    [2.0]
    """

    samples: list[RateSample] = field(default_factory=list)
    kills: list[tuple[float, int]] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    _seen: deque[tuple[float, int, dict[int, int]]] = field(default_factory=deque)
    _restarts: int = 0
    _waiting: bool = False

    def sample(self, at: float, records: int, latency: dict[int, int], restarts: int) -> None:
        """Take a sample; after a restart the numbers begin anew."""
        if restarts != self._restarts or (self._seen and records < self._seen[-1][1]):
            self._restarts = restarts
            self._seen.clear()
        seen = self._seen
        seen.append((at, records, latency))
        while len(seen) > 2 and seen[1][0] <= at - _RATE_SECONDS:
            seen.popleft()
        then, before, older = seen[0]
        rate = (records - before) / (at - then) if at > then else 0.0
        recent = {bucket: count - older.get(bucket, 0) for bucket, count in latency.items()}
        self.samples.append(RateSample(at, records, rate, percentile(recent, 0.99), restarts))
        if self._waiting and restarts > self._before and records:
            self._waiting = False
            self.recoveries.append(at - self.kills[-1][0])

    _before: int = 0

    def killed(self, at: float, pid: int) -> None:
        """A worker was killed."""
        self.kills.append((at, pid))
        self._waiting, self._before = True, self._restarts

    def until(self, at: float) -> Timeline:
        """Return the timeline up to a time."""
        kills = [kill for kill in self.kills if kill[0] <= at]
        done = [lasted for (begin, _), lasted in zip(kills, self.recoveries, strict=False) if begin + lasted <= at]
        return Timeline([sample for sample in self.samples if sample.at <= at], kills, done)

    @property
    def recovering(self) -> bool:
        """True if the job has not read on since a worker was killed."""
        return self._waiting


def bars(values: list[float], height: int = 4) -> list[str]:
    """Draw values as columns of blocks, the highest line first.

    >>> bars([0, 1, 2, 4], height=2)
    ['   █', ' ▄██']
    """
    top = max(values, default=0) or 1
    levels = [round(value / top * height * 8) for value in values]
    return ["".join(_BLOCKS[max(0, min(8, level - 8 * row))] for level in levels) for row in reversed(range(height))]


class Chaos:
    """Watches one job, kills workers of it when asked to, and draws it; ``kill`` ends a process."""

    def __init__(self, console: Console, seconds: float, kill: Callable[[int, int], None] = os.kill) -> None:
        self._console = console
        self._seconds = seconds
        self._kill = kill
        self._wanted = threading.Event()
        self._client: JobClient | None = None
        self._since = 0.0
        self.timeline = Timeline()

    @contextmanager
    def watch(self, client: JobClient) -> Iterator[None]:
        """Follow the job while the ``with`` block lasts."""
        self._client, self._since = client, time.monotonic()
        over = threading.Event()
        thread = threading.Thread(target=self._run, args=(over,), name="funken-chaos", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(5.0)

    def request(self) -> None:
        """Kill a worker at the next sample."""
        self._wanted.set()

    def _run(self, over: threading.Event) -> None:
        live = Live(console=self._console, auto_refresh=False, transient=True) if self._console.is_terminal else None
        with keys_pressed(self.request) as interactive, live or nullcontext():
            while not over.wait(SAMPLE_SECONDS):
                self.step(time.monotonic() - self._since, interactive)
                if live is not None:
                    live.update(self.render(), refresh=True)

    def step(self, at: float, interactive: bool) -> None:
        """Take a sample at ``at`` (s), and kill a worker if that was asked for."""
        client = self._client
        assert client is not None
        records, latency = _read(client)
        self.timeline.sample(at, records, latency, client.restarts)
        running = [sample.at for sample in self.timeline.samples if sample.records]
        if not interactive and not self.timeline.kills and running and at - running[0] >= KILL_AFTER:
            self._wanted.set()
        if self._wanted.is_set() and running and not self.timeline.recovering:
            self._wanted.clear()
            pid = worker_of(client)
            if pid is not None:
                with suppress(ProcessLookupError):
                    self._kill(pid, signal.SIGKILL)
                    self.timeline.killed(at, pid)
                    if not self._console.is_terminal:
                        self._console.print(f"{at:5.1f} s  worker {pid} killed")

    def render(self, over: bool = False) -> RenderableType:
        """Draw rate and latency over the last seconds, and the events; ``over``: around the first kill."""
        timeline = self.timeline
        width = max(8, min(WIDTH, self._console.width - _MARGIN))
        shown = timeline.samples[-width:]
        if over and timeline.kills:
            begin = timeline.kills[0][0] - width * SAMPLE_SECONDS / 3
            shown = [sample for sample in timeline.samples if sample.at >= begin][:width]
        if not shown:
            return Text("starting")
        newest = shown[-1]
        table = Table.grid(padding=(0, 2))
        rate = Text("\n".join(bars([sample.rate for sample in shown])), style="cyan")
        table.add_row(Text(f"{newest.rate:>9,.0f}\nrecords/s", justify="right"), rate)
        slow = Text("\n".join(bars([sample.p99 or 0.0 for sample in shown], 2)), style="magenta")
        p99 = "-" if newest.p99 is None else f"{newest.p99:,.0f} ms"
        table.add_row(Text(f"{p99}\nlatency p99", justify="right"), slow)
        return Panel(
            Group(table, *self._events()), title="payments, watched", subtitle=self._hint(over), width=width + _MARGIN
        )

    def frames(self, seconds: float) -> list[RenderableType]:
        """Return frames, one in so many seconds, from the first records until a killed worker was long replaced."""
        whole = self.timeline
        begin = next((sample.at for sample in whole.samples if sample.records), 0.0)
        end = whole.samples[-1].at if whole.samples else begin
        if whole.kills and whole.recoveries:
            end = min(end, whole.kills[0][0] + whole.recoveries[0] + _AFTER_SECONDS)
        drawn = []
        try:
            for number in range(int((end - begin) / seconds)):
                self.timeline = whole.until(begin + (number + 1) * seconds)
                drawn.append(self.render())
        finally:
            self.timeline = whole
        return drawn

    def _events(self) -> Iterator[Text]:
        timeline = self.timeline
        for position, (at, pid) in list(enumerate(timeline.kills))[-3:]:
            line = Text(f"{at:5.1f} s  worker {pid} killed", style="red")
            if position < len(timeline.recoveries):
                line.append(f", reads on after {timeline.recoveries[position]:.1f} s", style="green")
            else:
                line.append(": recovering from the newest checkpoint ...", style="yellow")
            yield line

    def _hint(self, over: bool) -> str:
        if over:
            return f"{len(self.timeline.samples)} samples, {1 / SAMPLE_SECONDS:.0f} a second"
        return f"any key kills a worker · {self.timeline.samples[-1].at:.0f} s of about {self._seconds:.0f}"


def worker_of(client: JobClient) -> int | None:
    """Return the process of a task of the last vertex; ``None`` if none of its own runs (now, or at all)."""
    job = client.snapshot()
    if job.state is not JobStatus.RUNNING:
        return None
    pids = [subtask.pid for vertex in reversed(job.vertices) for subtask in vertex.subtasks]
    return next((pid for pid in pids if pid and pid != os.getpid()), None)


def _read(client: JobClient) -> tuple[int, dict[int, int]]:
    sources = {vertex.id for vertex in client.plan.vertices if vertex.source is not None}
    records, latency = 0, dict[int, int]()
    for report in list(client.metrics().values()):
        for vertex, numbers in report.vertices.items():
            if vertex in sources:
                records += numbers.records_in
            else:
                merge(latency, numbers.latency)
    return records, latency


@contextmanager
def keys_pressed(act: Callable[[], Any]) -> Iterator[bool]:
    """Call ``act`` for each key that is pressed; false, and nothing else, where there is no terminal to press keys at."""
    try:
        import termios  # noqa: PLC0415 - not on every system
        import tty  # noqa: PLC0415
    except ImportError:
        yield False
        return
    try:
        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
    except (OSError, ValueError, AttributeError, termios.error):  # closed, or no terminal
        yield False
        return
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            if select.select([number], [], [], 0.2)[0] and os.read(number, 1):
                act()

    thread = threading.Thread(target=read, name="funken-keys", daemon=True)
    try:
        tty.setcbreak(number)  # Ctrl-C stays Ctrl-C
        thread.start()
        yield True
    finally:
        over.set()
        termios.tcsetattr(number, termios.TCSADRAIN, before)


# ---- A run as a picture that moves: frames of a terminal in one SVG, which plays by itself and needs nothing from
# elsewhere.
#
# The frames are drawn when the run is over, from what was noted of it. The last one stays for a while, and is what
# a viewer shows that does not play.


FRAME_WIDTH = 94
STAYS_SECONDS = 5.0
_WEB_FONT = re.compile(r"@font-face \{.*?\}", re.DOTALL)
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')


def frame(shown: Sequence[RenderableType], title: str, name: str) -> str:
    """Draw the content of a terminal as SVG; ``name`` keeps its styles apart from those of other frames."""
    console = Console(highlight=False, record=True, width=FRAME_WIDTH, file=io.StringIO(), force_terminal=True)
    for each in shown:
        console.print(each)
    return _WEB_FONT.sub("", console.export_svg(title=title, unique_id=name))


def moving(frames: Sequence[str], seconds: float) -> str:
    """Return one SVG that shows the frames one after the other, each for so long, over and over.

    >>> picture = moving([frame(["one"], "t", "a"), frame(["two"], "t", "b")], 0.5)
    >>> picture.count("<svg"), picture.count("@keyframes"), "url(http" in picture
    (3, 2, False)
    """
    sizes = [tuple(map(float, found.groups())) for each in frames if (found := _SIZE.search(each))]
    width, height = max(size[0] for size in sizes), max(size[1] for size in sizes)
    total = len(frames) * seconds + STAYS_SECONDS
    styles, parts = [], []
    for number, each in enumerate(frames):
        begin, last = 100 * number * seconds / total, number == len(frames) - 1
        end = 100.0 if last else 100 * (number + 1) * seconds / total
        hidden = "" if last else f"{end:.2f}%{{visibility:hidden}}"
        first = "" if number == 0 else "0%{visibility:hidden}"
        styles.append(f"@keyframes s{number}{{{first}{begin:.2f}%{{visibility:visible}}{hidden}}}")
        rest = "visible" if last else "hidden"
        parts.append(f'<g style="visibility:{rest};animation:s{number} {total:.2f}s step-end infinite">{each}</g>')
    style = f"<style>{''.join(styles)}</style>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">{style}{"".join(parts)}</svg>'
