"""The watermark that the splits of a source add up to."""

from funken import WatermarkStrategy
from funken.timing.watermarks import WatermarkProgress


def test_the_slowest_split_that_does_not_idle_holds_the_watermark_back():
    progress = WatermarkProgress(WatermarkStrategy.for_monotonous_timestamps().with_idleness("50 ms"))
    for split in ("slow", "fast"):
        progress.add(split, 0)
    progress.on_block("slow", [10], 0)
    progress.on_block("fast", [90], 0)
    assert (progress.periodic(0), progress.watermark) == (True, 9)

    progress.on_block("fast", [95], 60)
    assert (progress.periodic(60), progress.watermark) == (True, 94)

    progress.on_block("slow", [20], 61)
    assert (progress.periodic(61), progress.watermark) == (False, 94), "it never goes back"
