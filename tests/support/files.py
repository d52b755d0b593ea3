"""A file sink that commits with checkpoints, and what it has committed."""

from __future__ import annotations

from collections import Counter

from funken import Encoder, FileSink, RollingPolicy
from funken.connectors.files.sink import BucketAssigner


def file_sink(folder):
    """Lines below ``folder``/out."""
    return (
        FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )


def written(folder):
    """How often each line is in files that everybody may read."""
    files = [path for path in (folder / "out").rglob("*") if path.is_file() and not path.name.startswith(".")]
    return Counter(line for path in files for line in path.read_text().splitlines())
