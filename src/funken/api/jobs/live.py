"""A streaming job at one moment as a notebook shows it: a small table while it runs, a line when it is over.

The size of a picture does not depend on how many tasks or operators the job has.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from funken.api.jobs.batch import in_bytes, in_seconds
from funken.api.jobs.readings import COLUMNS, JobReader, Reading
from funken.dataclass import dataclass
from funken.runtime.job.checkpoint_history import CheckpointsSnapshot
from funken.runtime.job.states import JobStatus
from funken.timing.clock import SystemClock

if TYPE_CHECKING:
    from funken.api.jobs.client import JobClient


@dataclass(frozen=True, repr=False)
class JobProgress:
    """A streaming job at one moment: for how long (s) it is there, its figures, its checkpoints; or how it has ended.

    >>> reading = Reading(1200, 400.0, 75_000, None, None, late=2)
    >>> running = JobProgress("totals", 3.0, "RUNNING", reading, "2 completed")
    >>> running
    totals: 3 s, RUNNING: 1,200 records, 400 records/s, watermark 0:01:15, 2 late records DROPPED; checkpoints: 2 completed
    >>> JobProgress("totals", 3.2, "FINISHED", reading, "", ending="finished").line()
    'totals: finished after 3.2 s: 1,200 records, 400 records/s, watermark 0:01:15, 2 late records DROPPED'
    >>> list(running.rows())[0][:5]
    ('time', 'state', 'records/s', 'records', 'late')
    """

    name: str
    seconds: float
    state: str
    reading: Reading | None = None
    checkpoints: str = ""
    ending: str = ""
    """``finished``, ``cancelled``, ``failed`` or ``stopped``; empty while it runs."""
    url: str | None = None
    """Where its dashboard is, if it has one."""

    def facts(self) -> str:
        """Return the figures as a sentence."""
        parts = [] if self.reading is None else [self.reading.line()]
        if self.checkpoints:
            parts.append(f"checkpoints: {self.checkpoints}")
        return "; ".join(parts)

    def line(self) -> str:
        """Return the job, how long it has run, and its figures."""
        facts = self.facts()
        how = f"{self.ending} after {self.seconds:.1f} s" if self.ending else f"{self.seconds:.0f} s, {self.state}"
        return f"{self.name}: {how}{': ' * bool(facts)}{facts}"

    def rows(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the table of a job that runs: its header and its line."""
        cells = ("",) * len(COLUMNS) if self.reading is None else self.reading.cells()
        header = ("time", "state", *COLUMNS, "checkpoints")
        return header, (f"{self.seconds:.0f} s", self.state, *cells, self.checkpoints or "-")

    __str__ = __repr__ = line

    def _repr_html_(self) -> str:
        name, line = f"<b>{escape(self.name)}</b>", self.line().removeprefix(self.name)
        if self.ending:
            return f"{name}{escape(line)}"
        header, cells = self.rows()
        table = (
            "".join(f"<th>{escape(each)}</th>" for each in header),
            "".join(f"<td>{escape(each)}</td>" for each in cells),
        )
        link = "" if self.url is None else f' <a href="{escape(self.url)}" target="_blank">dashboard</a>'
        return f"{name}{link}<table><tr>{table[0]}</tr><tr>{table[1]}</tr></table>"


class LiveJob:
    """Takes pictures of a job, from the moment it is made."""

    def __init__(self, client: JobClient) -> None:
        self._client = client
        self._reader = JobReader(client)
        self._clock = SystemClock()
        self._since = self._clock.monotonic()

    def progress(self) -> JobProgress:
        """Return where the job stands; the figures are those of the last seconds."""
        now = self._clock.monotonic()
        return self._picture(self._reader.read(now, self._clock.now()), now, "")

    def over(self, how: str) -> JobProgress:
        """Return what became of the job; the figures are those of the whole run."""
        now = self._clock.monotonic()
        return self._picture(self._reader.total(now, self._clock.now()), now, how)

    def _picture(self, reading: Reading | None, now: float, ending: str) -> JobProgress:
        client = self._client
        status, snapshot = client.get_job_status().result(), client.snapshot()
        return JobProgress(
            self._reader.name,
            now - self._since,
            snapshot.phase if reading is None and status is JobStatus.RUNNING else status.name,
            reading,
            in_words(snapshot.checkpoints),
            ending,
            client.get_web_interface_url(),
        )


def in_words(checkpoints: CheckpointsSnapshot) -> str:
    """Return the checkpoints of a job as words; nothing if there was none.

    >>> in_words(CheckpointsSnapshot()), in_words(CheckpointsSnapshot(completed=2, failed=1))
    ('', '2 completed, 1 FAILED')
    """
    parts = [f"{checkpoints.completed:,} completed"] if checkpoints.completed else []
    if checkpoints.in_progress:
        parts.append(f"{checkpoints.in_progress} in progress")
    if checkpoints.failed:
        parts.append(f"{checkpoints.failed:,} FAILED")
    last = checkpoints.latest_completed
    if last is not None and last.duration is not None:
        parts.append(f"the last one {in_seconds(last.duration / 1000)}, {in_bytes(last.size)}")
    return ", ".join(parts)
