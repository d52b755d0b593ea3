"""Parts of texts between separators, cut from the bytes of a whole column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


class SeparatedTexts:
    """The places of a separator in the bytes of a column of texts.

    >>> texts = SeparatedTexts(pa.array(["a/b", None, "c"]), b"/")
    >>> texts.parts(0).to_pylist(), texts.parts(1).to_pylist()
    (['a', None, 'c'], ['b', None, None])
    """

    def __init__(self, texts: Any, mark: bytes) -> None:
        _, offsets, data = texts.buffers()
        self._texts, self._width = texts, len(mark)
        size = len(texts) + 1 if offsets else 1
        self._bounds = np.frombuffer(offsets or bytes(4), np.int32, size, 4 * texts.offset if offsets else 0)
        first, end = int(self._bounds[0]), int(self._bounds[-1])
        found = np.frombuffer(data or b"", np.uint8)[first:end]
        here = found == mark[0]
        for at, byte in enumerate(mark[1:], 1):
            left = max(len(found) - at, 0)
            here[:left] &= found[at:] == byte
            here[left:] = False
        places = np.flatnonzero(here).astype(np.int32) + np.int32(first)
        if self._width > 1:  # none goes from a text into the next one
            ends = self._bounds.take(np.searchsorted(self._bounds, places, "right"))
            places = places[places + self._width <= ends]
        self._places = places
        #: of each text: where its separators begin in these
        self._firsts = np.searchsorted(places, self._bounds)

    def parts(self, index: int) -> Any:
        """Return a part of each text; NULL if it has fewer, or is empty."""
        starts, stops = self._bounds[:-1], self._bounds[1:]
        count, places, at = len(starts), self._places, self._firsts[:-1] + index
        missing = (at > self._firsts[1:]) | (starts == stops)
        if self._texts.null_count:
            missing |= self._texts.is_null().to_numpy(zero_copy_only=False)
        begins, ends = starts, stops
        if len(places):
            ends = np.where(at < self._firsts[1:], places.take(at, mode="clip"), stops)
            begins = places.take(at - 1, mode="clip") + np.int32(self._width) if index else starts
        mask = missing if missing.any() else None
        if mask is not None:
            begins, ends = np.where(mask, starts, begins), np.where(mask, starts, ends)
        # Hot: the parts and the bytes between them are texts over the same bytes; only the parts are copied.
        bounds = np.stack((begins, ends), 1).ravel()
        data = self._texts.buffers()[2] or pa.py_buffer(b"")
        both = pa.StringArray.from_buffers(max(2 * count - 1, 0), pa.py_buffer(bounds), data)
        return both.take(pa.array(np.arange(0, 2 * count, 2), mask=mask))
