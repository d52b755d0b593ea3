"""``funken demo``: how often words occur in the last five seconds, every second, while a text streams by.

The program is ``funken.demo.command``; this module chooses what it reads, follows its results on the driver, and shows
them: the newest window while the job runs, the most frequent words at its end.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics
from urllib.parse import urlsplit

import click
from rich.console import Console, RenderableType
from rich.table import Table

from funken import (
    Configuration,
    DataGeneratorSource,
    DataStream,
    FileSource,
    SlidingEventTimeWindows,
    SocketSource,
    Source,
    StreamExecutionEnvironment,
    StreamFormat,
    TimeWindow,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
    config,
    extras,
)
from funken.api.jobs.results import watch_jobs
from funken.cli.failures import Announcer, ending_well, job_options, with_dashboard, with_options
from funken.cli.progress import Progress
from funken.cli.warm import HandOver
from funken.connectors.rate_limit import RateLimitedSource
from funken.demo import fraud
from funken.demo.chaos import Chaos, frame, moving
from funken.sdk import Operator, Timestamps, Values
from funken.timing.clock import SystemClock
from funken.timing.instants import moment

# ---- The demo's program: how often each word occurs, in sliding event-time windows of 5 s every 1 s.
#
# ``windowed_counts`` is the program; the rest gives it lines with event time. A text has no times of its own, so
# line *i* of a text happens at *i* times 10 ms, however fast it is read: the result is the same at every speed,
# parallelism and way of running. Lines from a socket happen when they arrive. Workers import this module: it needs
# nothing but Funken.


SIZE = timedelta(seconds=5)
SLIDE = timedelta(seconds=1)
SIZE_MS = round(SIZE.total_seconds() * 1000)
MILLIS_PER_LINE = 10

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")

# ---- the program


def windowed_counts(lines: DataStream) -> DataStream:
    """Count the words of lines: one record ``(window start in ms, word, count)`` per window and word in it."""
    return (
        lines.flat_map(words)
        .map(lambda word: (word, 1))
        .key_by(lambda pair: pair[0])
        .window(SlidingEventTimeWindows.of(SIZE, SLIDE))
        .reduce(lambda one, other: (one[0], one[1] + other[1]), with_window_start)
        .uid("counts")
    )


def words(line: str) -> list[str]:
    """Split a line into words, in lower case.

    >>> words("Don't panic: it's only 42.")
    ["don't", 'panic', "it's", 'only']
    """
    return _WORD.findall(line.lower())


def with_window_start(word: str, window: TimeWindow, counts: list[tuple[str, int]]) -> list[tuple[int, str, int]]:
    """Turn the one count of a window into a result."""
    return [(window.start, word, count) for _, count in counts]


# ---- its text


@cache
def manual() -> list[str]:
    """Return the lines of Python's reference manual, as ``help()`` shows them; every CPython has it."""
    return [line for text in topics.values() for line in text.splitlines()]


def manual_line(index: int) -> str:
    """Return a line of the manual."""
    return manual()[index]


def manual_source() -> Source:
    """Return the manual as a source of lines."""
    return DataGeneratorSource(manual_line, count=len(manual()))


# ---- its time


class NumberLines(Operator):
    """Gives each line its time by its number."""

    def __init__(self) -> None:
        self._count = 0

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Number a block."""
        begin, self._count = self._count, self._count + len(values)
        self.output.emit(values, list(range(begin * MILLIS_PER_LINE, self._count * MILLIS_PER_LINE, MILLIS_PER_LINE)))

    def snapshot(self) -> int:
        """Return the number of lines so far."""
        return self._count

    def restore(self, snapshot: int) -> None:
        """Resume behind so many lines."""
        self._count = snapshot


class ArrivalTime(WatermarkGenerator):
    """The time of day as watermark: windows close on time even if nothing arrives."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the time of day."""
        output.emit_watermark(SystemClock().now() - 1)


def arrival_time(line: str, previous: int) -> int:
    """Return the time of day (ms)."""
    return SystemClock().now()


BY_LINE_NUMBER = WatermarkStrategy.for_monotonous_timestamps()
"""For lines with times by their number."""

BY_ARRIVAL = WatermarkStrategy.for_generator(ArrivalTime).with_timestamp_assigner(arrival_time)
"""For lines that come when they come."""


MANUAL_LINES_PER_SECOND = 600.0
"""At this rate the manual takes about 20 s."""
MANUAL_LINES_BEFORE_SPARK = 300.0
"""While Spark starts, which has the other half then at any rate."""
_JOB = "word histogram"

_FRAME_SECONDS = 0.5
PAYMENTS_PER_SECOND = 2000.0
CHAOS_OPTIONS = {
    "execution.checkpointing.interval": "1 s",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100",
    "restart-strategy.fixed-delay.delay": "0 s",
}
"""The defaults of the demonstration of recovery."""

LIVE_WORDS = 10
BAR_WIDTH = 40

# ---- what is read


@contextmanager
def standard_input() -> Iterator[SocketSource]:
    """Serve standard input on loopback, to the first that connects; a job's tasks cannot read it themselves."""
    if sys.stdin is None or sys.stdin.closed:
        raise click.UsageError("--input - needs a standard input, but it is closed: there is no standard input.")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener,), name="funken-stdin", daemon=True).start()
        yield SocketSource(*listener.getsockname())


def _serve(listener: socket.socket) -> None:
    with suppress(OSError):  # the job, or all of it, is over
        connection, _ = listener.accept()
        with connection:
            # Not sys.stdin.read(): a thread that waits in there keeps the interpreter from ending.
            while data := os.read(sys.stdin.fileno(), 1 << 16):
                connection.sendall(data)


def socket_source(address: str) -> SocketSource:
    """Return the source of ``socket://host:port``.

    >>> socket_source("socket://localhost:9999").port
    9999
    """
    try:
        url = urlsplit(address)
        if url.hostname and url.port:
            return SocketSource(url.hostname, url.port)
    except ValueError:
        pass
    raise click.BadParameter(f"{address!r} is not of the form socket://HOST:PORT.", param_hint="--input")


def text_source(where: str | None) -> Source:
    """Return the source of a text that ends: the manual, or a file or folder."""
    if where is None:
        return manual_source()
    if "://" not in where and not os.path.exists(where):
        raise click.BadParameter(f"{where!r} does not exist.", param_hint="--input")
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(errors="replace"), where).build()


def read_lines(
    environment: StreamExecutionEnvironment, where: str | None, speed: float | None, stack: ExitStack
) -> DataStream:
    """Return the stream of lines that ``--input`` and ``--speed`` ask for."""
    live = where == "-" or (where is not None and where.startswith("socket://"))
    if live and speed:
        raise click.UsageError(f"--speed needs a text that is there already; {where} comes at its own speed.")
    if live and where is not None:
        source = stack.enter_context(standard_input()) if where == "-" else socket_source(where)
        return environment.from_source(source, BY_ARRIVAL, "lines")
    if speed is None:
        speed = MANUAL_LINES_PER_SECOND if where is None else 0
    return timed_lines(environment, where, speed or None)


def timed_lines(environment: StreamExecutionEnvironment, where: str | None, speed: float | None) -> DataStream:
    """Return the lines of a text, so many a second; ``None``: as fast as possible."""
    source = text_source(where)
    read = source if speed is None else RateLimitedSource(source, speed)
    return numbered(environment.from_source(read, WatermarkStrategy.no_watermarks(), "lines").uid("lines"))


def numbered(lines: DataStream) -> DataStream:
    """Return lines of a source with event time by line number; one subtask reads them."""
    counted = lines.force_non_parallel().transform("line times", NumberLines).uid("line times").force_non_parallel()
    return counted.assign_timestamps_and_watermarks(BY_LINE_NUMBER).force_non_parallel()


def begins_here(where: str | None, speed: float | None, configuration: Configuration) -> bool:
    """Return True if the job begins in this process: a slow text has results to show while Spark starts.

    Not where Spark is a cluster: its hosts would resume from a savepoint in a temporary folder of this one.
    """
    if configuration.get(config.TARGET) != "continuous" or where == "-" or (where or "").startswith("socket://"):
        return False
    if "PYSPARK_GATEWAY_PORT" in os.environ or not (configuration.get(config.MASTER) or "local").startswith("local"):
        return False  # spark-submit has started this program, or a master is named
    return bool(MANUAL_LINES_PER_SECOND if where is None and speed is None else speed)


@contextmanager
def results_of(
    where: str | None, speed: float | None, configuration: Configuration, stack: ExitStack
) -> Iterator[Iterable[tuple[int, str, int]]]:
    """Run the program, and yield its results; while Spark starts, those of this process."""
    if not begins_here(where, speed, configuration):
        environment = StreamExecutionEnvironment.get_execution_environment(configuration)
        counts = windowed_counts(read_lines(environment, where, speed, stack))
        with counts.execute_and_collect(_JOB) as results:
            yield results
        return
    if configuration.get(config.PARALLELISM) < 1:
        configuration.set(config.PARALLELISM, os.cpu_count() or 1)  # of both jobs

    def build(environment: StreamExecutionEnvironment, here: bool) -> DataStream:
        first = MANUAL_LINES_BEFORE_SPARK if here else MANUAL_LINES_PER_SECOND
        return windowed_counts(timed_lines(environment, where, speed or first))

    with closing(HandOver(build, configuration, _JOB).records()) as records:
        yield records


# ---- what comes out


class Tally:
    """Adds up the results of windows as they come, in memory by the number of different words.

    A word occurs once in each of five overlapping windows; those that begin at a multiple of their size lie side by
    side, so their counts add up to the number of occurrences.

    >>> tally = Tally()
    >>> for result in [(-4000, "a", 1), (0, "a", 3), (1000, "a", 2), (5000, "a", 1)]:
    ...     tally.add(*result)
    >>> tally.occurrences["a"], tally.busiest["a"], tally.newest()
    (4, (3, 0), (1000, Counter({'a': 2})))
    """

    def __init__(self) -> None:
        self.occurrences: Counter[str] = Counter()
        self.busiest: dict[str, tuple[int, int]] = {}
        self._windows: dict[int, Counter[str]] = {}

    def add(self, start: int, word: str, count: int) -> None:
        """Take a result: a word's count in the window that starts at ``start``."""
        if start % SIZE_MS == 0:
            self.occurrences[word] += count
        if count > self.busiest.get(word, (0, 0))[0]:
            self.busiest[word] = count, start
        words = self._windows.get(start)
        if words is not None:
            words[word] = count
        elif not self._windows or start > min(self._windows):
            # A new dict, so that the thread that draws never iterates over one that changes.
            self._windows = dict([*sorted(self._windows.items())[-1:], (start, Counter({word: count}))])

    def newest(self) -> tuple[int, Counter[str]] | None:
        """Return the newest window that is probably complete: the last but one that any subtask has sent."""
        windows = self._windows
        if len(windows) < 2:
            return None
        start = min(windows)
        return start, windows[start].copy()

    def bars(self) -> RenderableType | None:
        """Draw the newest window."""
        newest = self.newest()
        if newest is None:
            return None
        start, counts = newest
        top = counts.most_common(LIVE_WORDS)
        block = "█" if "utf" in getattr(sys.__stderr__, "encoding", "").lower() else "#"
        table = Table.grid(padding=(0, 2, 0, 0))
        table.title = f"\n{moment(start)} to {moment(start + SIZE_MS)}"
        table.title_justify = "left"
        for word, count in top:
            bar = block * max(1, round(BAR_WIDTH * count / top[0][1]))
            table.add_row(f"{word[:16]:>16}", f"{count:>6,}", f"[cyan]{bar}[/]")
        return table

    def table(self, top: int) -> RenderableType:
        """Return the most frequent words."""
        seconds = SIZE_MS // 1000
        table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
        table.add_column("word")
        table.add_column("occurrences", justify="right")
        table.add_column(f"busiest {seconds} s", justify="right")
        table.add_column("which began at", justify="right")
        for word, count in sorted(self.occurrences.items(), key=lambda pair: (-pair[1], pair[0]))[:top]:
            most, start = self.busiest[word]
            table.add_row(word, f"{count:,}", f"{most:,}", moment(start))
        return table


# ---- what cannot be lost


def kill_workers(configuration: Configuration, seconds: int, rate: float, picture: str | None) -> bool:
    """Run the payments, let workers be killed, and compare; return whether nothing was lost or doubled."""
    count = int(seconds * rate)
    out = Console(highlight=False)
    for key, value in CHAOS_OPTIONS.items():
        if not configuration.contains_key(key):
            configuration.set(key, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    if not configuration.contains_key(config.PARALLELISM.key):
        environment.set_parallelism(2)
    chaos = Chaos(out, seconds)
    with tempfile.TemporaryDirectory(prefix="funken-payments-") as folder:
        fraud.watch_payments(environment, int(rate), count, folder)
        with watch_jobs(chaos.watch):
            environment.execute("payments")
        verdict = fraud.Verdict.of(fraud.expected(int(rate), count), fraud.results_in(folder))
    said = [
        f"worker {pid} was killed at {at:.1f} s; {seconds_lost:.1f} s later the job read on"
        for (at, pid), seconds_lost in zip(chaos.timeline.kills, chaos.timeline.recoveries, strict=False)
    ]
    if not chaos.timeline.kills:
        said.append("no worker was killed: there was none, or nobody pressed a key")
    said.append(f"[bold {'green' if verdict.exact else 'red'}]{verdict}[/]")
    for line in ([chaos.render(over=True)] if out.is_terminal else []) + said:
        out.print(line)
    if picture is not None:
        shown = [*([each] for each in chaos.frames(_FRAME_SECONDS)), [chaos.render(over=True), *said]]
        frames = [frame(each, "funken demo --chaos", f"f{number}") for number, each in enumerate(shown)]
        Path(picture).write_text(moving(frames, _FRAME_SECONDS), encoding="utf-8")
    return verdict.exact


# ---- the command


@click.command()
@click.option(
    "--input",
    "where",
    metavar="FILE|DIR|socket://HOST:PORT|-",
    help="What to read instead of Python's reference manual; - is standard input.",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    metavar="LINES",
    help="Lines per second, 0 for as fast as possible. Default: 600 for the manual, 0 for files.",
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Words in the table at the end.")
@click.option(
    "--chaos", is_flag=True, help="Watch payments instead, kill workers with any key, and count what is lost."
)
@click.option(
    "--seconds",
    type=click.IntRange(min=1),
    default=25,
    show_default=True,
    help="With --chaos: for how long payments come.",
)
@click.option(
    "--picture", metavar="FILE.svg", type=click.Path(dir_okay=False), help="With --chaos: draw the run to a file."
)
@click.option("--open", "open_browser", is_flag=True, help="Open the dashboard in the browser.")
@job_options(default_target="continuous" if extras.has_spark() else "local")
def demo(
    where: str | None,
    speed: float | None,
    top: int,
    open_browser: bool,
    chaos: bool,
    seconds: int,
    picture: str | None,
    target: str,
    parallelism: int | None,
    configuration: Configuration,
) -> None:
    """Count words in sliding event-time windows: 5 s long, every 1 s.

    Reads Python's reference manual as a stream, shows the newest window, and ends with the most frequent words. In a
    text, line i happens at i times 10 ms, so that the counts do not depend on speed, parallelism or target. Lines from
    a socket or standard input happen when they arrive, and are counted until they end, or until Ctrl-C.

    The manual, and any text with a --speed, begins in this process at once, and moves to Spark with its state when that has
    started.

    \b
    funken demo --speed 0 -p 4
    funken demo --input war-and-peace.txt --target batch
    tail -f access.log | funken demo --input -
    funken demo --chaos
    """
    if chaos:
        if where is not None:
            raise click.UsageError("--chaos makes its own payments; leave --input out.")
        with_options(configuration, target, parallelism)
        with ending_well():
            exact = kill_workers(configuration, seconds, speed or PAYMENTS_PER_SECOND, picture)
        sys.exit(0 if exact else 1)
    tally = Tally()
    out = Console(highlight=False)
    with ExitStack() as stack:
        stack.enter_context(ending_well())
        stack.enter_context(watch_jobs(Announcer(open_browser).watch))
        stack.enter_context(watch_jobs(Progress(below=tally.bars).watch))
        with_dashboard(with_options(configuration, target, parallelism), open_browser)
        scope = " in the windows so far"
        try:
            with results_of(where, speed, configuration, stack) as results:
                for result in results:
                    tally.add(*result)
            scope = ""
        finally:
            if tally.occurrences:
                total = sum(tally.occurrences.values())
                out.print(f"\n{total:,} words, {len(tally.occurrences):,} of them different{scope}\n")
                out.print(tally.table(top))
