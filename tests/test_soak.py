"""What the soak run takes for growth, and how it finds output that is lost or doubled."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MIB = 2**20


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), str(BENCHMARKS / "compare"), *sys.path])
    import soak

    return soak


@pytest.mark.parametrize(
    ("series", "holds"),
    [
        (lambda at: 100.0, True),
        (lambda at: 100 + 3 * (at % 2), True),
        (lambda at: 100 - at / 10, True),
        (lambda at: 100 + at / 10, False),
        (lambda at: 100 + (20 if at > 80 else 0), False),
        (lambda at: 100 + (50 if at == 40 else 0), True),
    ],
)
def test_memory_may_grow_by_a_twentieth(soak, series, holds):
    row = soak.growth("driver 1, memory", [(at, series(at) * MIB) for at in range(100)], soak.MEMORY, soak.SMALL_MEMORY)
    assert row.holds is holds


def test_files_may_come_and_go(soak):
    assert soak.peaks("tmp, files", [(at, 100 + at % 7) for at in range(100)], 0.1, 5).holds
    assert not soak.peaks("tmp, files", [(at, 100 + at) for at in range(100)], 0.1, 5).holds


def written(folder, kind, name, *lines):
    (folder / kind).mkdir(parents=True, exist_ok=True)
    (folder / kind / name).write_text("".join(f"{line}\n" for line in lines))


def test_output_is_checked_and_deleted(soak, tmp_path):
    whole = soak.PER_MS * 1000
    written(tmp_path, "timers", "part-0", f"0 {whole}", f"1 {whole - 5}")
    written(tmp_path, "timers", ".part-1.inprogress", f"7 {whole}")
    output = soak.Output(tmp_path)
    output.take()
    assert [path.name for path in (tmp_path / "timers").iterdir()] == [".part-1.inprogress"]
    written(tmp_path, "timers", "part-2", "1 5", f"2 {whole}")
    output.take()
    assert (output.wrong, output.missing()) == ([], [])


def test_output_that_is_lost_or_doubled_is_found(soak, tmp_path):
    whole = soak.PER_MS * 1000
    written(tmp_path, "windows", "part-0", f"0 {whole}", f"1 {whole + 1}", f"3 {whole}")
    output = soak.Output(tmp_path)
    output.take()
    written(tmp_path, "windows", "part-1", "0 1")
    output.take()
    assert len(output.wrong) == 2
    assert output.missing() == ["windows: second 2 is not complete"]


def sample(at, read, watermark, checkpoints):
    return {
        "time": at, "at": at, "records": read, "lag": 0.0, "checkpoints": checkpoints, "sources": {"0": [read, watermark]},
        "watermarks": {"1/0": watermark},
    }  # fmt: skip


def test_a_source_that_reads_nothing_is_found(soak):
    good = [sample(at, 100 * at, 10 * at, at) for at in range(10)]
    assert all(row.holds for row in soak.progress(good, good, 100))
    starved = [*good, sample(10, 900, 90, 10)]
    failed = [row.what for row in soak.progress(starved, starved, 100) if not row.holds]
    assert failed == ["sources that read nothing", "watermarks of sources that stood still", "watermarks that stood still",
                      "records/s below the rate"]  # fmt: skip
