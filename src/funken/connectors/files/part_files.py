"""Part files of a file sink: the bytes of records, the end of a file, and its name."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import IO, Any, Self

from funken.connectors.base import ConnectorContext
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable
from funken.ids import Millis
from funken.io.durations import DurationLike, duration_ms
from funken.types.callables import Generic, T_contra
from funken.types.info import TypeInformation
from funken.types.text import written


class Encoder(Generic[T_contra]):
    r"""An encoder of records; subclass it and define ``encode``.

    >>> import json
    >>> class JsonLines(Encoder):
    ...     def encode(self, values):
    ...         return b"".join(json.dumps(value).encode() + b"\n" for value in values)
    >>> JsonLines().encode([{"word": "to"}, {"word": "be"}])
    b'{"word": "to"}\n{"word": "be"}\n'
    """

    takes_columns: bool = False
    """True if ``encode`` takes blocks of columns, too."""

    def encode(self, values: list[T_contra]) -> bytes:
        """Return the bytes of a block of records; blocks are written one after the other."""
        raise NotImplementedError

    def header(self) -> bytes:
        r"""Return the first bytes of every file; none unless overridden.

        >>> class Csv(Encoder):
        ...     def header(self):
        ...         return b"word,count\n"
        ...     def encode(self, values):
        ...         return b"".join(b"%s,%d\n" % (word.encode(), count) for word, count in values)
        >>> Csv().header() + Csv().encode([("to", 2)])
        b'word,count\nto,2\n'
        """
        return b""

    def merge(self, sources: Sequence[IO[bytes]], target: IO[bytes]) -> None:
        r"""Write one file of several: their bytes one after the other, with one header.

        >>> import io
        >>> target = io.BytesIO()
        >>> Encoder.simple_string_encoder().merge([io.BytesIO(b"to\n"), io.BytesIO(b"be\n")], target)
        >>> target.getvalue()
        b'to\nbe\n'
        """
        target.write(self.header())
        for source in sources:
            source.read(len(self.header()))
            shutil.copyfileobj(source, target, 1 << 20)

    def of_type(self, type_info: TypeInformation | None) -> Encoder[T_contra]:
        r"""Return the encoder for records of a declared type (``None``: any).

        >>> from funken import Types
        >>> plain = Encoder.simple_string_encoder()
        >>> plain.encode([True]), plain.of_type(Types.BOOLEAN()).encode([True])
        (b'True\n', b'true\n')
        """
        return self

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder[object]:
        r"""Write a line per record: ``str(record)``, or as Flink writes records of the declared type.

        Raises ``InvalidConfiguration`` for a charset that Python does not know.

        >>> Encoder.simple_string_encoder("ISO-8859-1").encode(["café"])
        b'caf\xe9\n'
        """
        return SimpleStringEncoder(charset_name)


@dataclass(frozen=True)
class SimpleStringEncoder(Encoder[object]):
    r"""A line per record.

    >>> SimpleStringEncoder().encode(["a", ("b", 2), None])
    b"a\n('b', 2)\nNone\n"
    """

    charset_name: str = "UTF-8"
    type_info: TypeInformation | None = None

    def __post_init__(self) -> None:
        """Refuse a charset that Python does not know, before the job runs."""
        try:
            "".encode(self.charset_name)
        except LookupError as error:
            raise InvalidConfiguration(f"{error}; give a text charset of Python, e.g. 'UTF-8', 'ISO-8859-1'.") from None

    def encode(self, values: list[Any]) -> bytes:
        """Encode a block at once."""
        show = str if self.type_info is None else written(self.type_info)
        return ("\n".join(map(show, values)) + "\n").encode(self.charset_name).removeprefix(self.header())

    def header(self) -> bytes:
        """Return the byte order mark, where the charset has one: once per file and not per block."""
        return "".encode(self.charset_name)

    def of_type(self, type_info: TypeInformation | None) -> Encoder:
        """Return the encoder that writes records as their type is written."""
        return replace(self, type_info=type_info)


@dataclass(frozen=True)
class RollingPolicy:
    """A rule for closing a part file before the next checkpoint; ``None`` is never.

    >>> RollingPolicy.default_rolling_policy(part_size=1 << 20).part_size, RollingPolicy.on_checkpoint_rolling_policy()
    (1048576, RollingPolicy(part_size=None, rollover_interval=None, inactivity_interval=None))
    """

    part_size: int | None = None
    rollover_interval: Millis | None = None
    inactivity_interval: Millis | None = None

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 << 20,
        rollover_interval: DurationLike = 60_000,
        inactivity_interval: DurationLike = 60_000,
    ) -> RollingPolicy:
        """Close a file that has ``part_size`` bytes, is this old (ms), or was not written to for so long (ms)."""
        return RollingPolicy(part_size, duration_ms(rollover_interval), duration_ms(inactivity_interval))

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """Close files at checkpoints only."""
        return RollingPolicy()

    def is_full(self, size: int) -> bool:
        """Return True if a file of this size (bytes) is to be closed.

        >>> policy = RollingPolicy.default_rolling_policy(part_size=1 << 20)
        >>> policy.is_full((1 << 20) - 1), policy.is_full(1 << 20)
        (False, True)
        """
        return self.part_size is not None and size >= self.part_size

    def is_old(self, age: int, inactivity: int) -> bool:
        """Return True if a file of this age, and this long not written to (ms), is to be closed.

        >>> policy = RollingPolicy.default_rolling_policy(rollover_interval=60_000, inactivity_interval=5_000)
        >>> policy.is_old(age=10_000, inactivity=100), policy.is_old(age=10_000, inactivity=5_000)
        (False, True)
        """
        return (self.rollover_interval is not None and age >= self.rollover_interval) or (
            self.inactivity_interval is not None and inactivity >= self.inactivity_interval
        )


@dataclass(frozen=True)
class OutputFileConfig:
    """A rule for the names of part files: ``<prefix>-<uuid>-<n><suffix>``.

    >>> OutputFileConfig.builder().with_part_prefix("clicks").with_part_suffix(".txt").build()
    OutputFileConfig(part_prefix='clicks', part_suffix='.txt')
    """

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        """Refuse folders in names."""
        if {"/", os.sep} & {*self.part_prefix, *self.part_suffix}:
            raise InvalidConfiguration(f"{self} would change the folder; use a bucket assigner for folders.")

    @staticmethod
    def builder() -> OutputFileConfig:
        """Start from the defaults."""
        return OutputFileConfig()

    def with_part_prefix(self, prefix: str) -> Self:
        """Set the beginning of the names."""
        return replace(self, part_prefix=prefix)

    def with_part_suffix(self, suffix: str) -> Self:
        """Set the end of the names."""
        return replace(self, part_suffix=suffix)

    def build(self) -> Self:
        """Return it."""
        return self


@contextlib.contextmanager
def explained(base_path: str, path: str, context: ConnectorContext | None = None) -> Iterator[None]:
    """Raise file system exceptions as ``SinkNotWritable``, with the path below the base path, and the remedy."""
    try:
        yield
    except (OSError, ImportError) as error:
        operator = context.operator if context else None
        raise SinkNotWritable(
            f"{operator or 'file sink'}: cannot write {path} ({error}); "
            f"free the path {base_path!r}, allow writing to it, or choose another.",
            operator,
            context.subtask if context else None,
        ) from error
