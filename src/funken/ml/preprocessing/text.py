"""Vectorizers of text: scikit-learn's, fitted by one pass over distributed data. A record is a text, or has one text field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import add
from typing import Any

import numpy as np
from sklearn.feature_extraction import text

from funken.errors import InvalidProgram
from funken.ml.base import DistributedTransformer
from funken.ml.data.sources import BlockSet


def texts(X: Any) -> Any:
    """Return the texts of a column as a list."""
    if getattr(X, "ndim", 1) != 2:
        return X
    if X.shape[1] != 1:
        raise InvalidProgram(
            f"a vectorizer needs one text per record, but got {X.shape[1]} fields. Name one: features=[...]."
        )
    return X[:, 0].tolist()


class TextTransformer(DistributedTransformer):
    """A transformer of texts, which may stand in a column."""

    def transform(self, X: Any, *args: Any, **given: Any) -> Any:
        """Transform texts; or pair the records of distributed data with their vectors."""
        return super().transform(texts(X), *args, **given)

    def fit(self, X: Any, y: Any = None, *, features: Iterable[str | int] | None = None, **given: Any) -> Any:
        """Fit to texts, or to distributed data."""
        return super().fit(texts(X), y, features=features, **given)

    def fit_transform(self, X: Any, y: Any = None, **given: Any) -> Any:
        """Fit, then transform."""
        return super().fit_transform(texts(X), y, **given)


class HashingVectorizer(TextTransformer, text.HashingVectorizer):
    """Counts words in columns by their hash; there is nothing to fit.

    >>> HashingVectorizer(n_features=8).transform(["to be or not to be"]).shape
    (1, 8)
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        pass


class Vocabulary:
    """Finds the words of distributed texts, and how many texts have each."""

    def __init__(self, analyzer: Any) -> None:
        self._analyzer = analyzer

    def __call__(self, block: Any) -> tuple[int, Counter[str], Counter[str]]:
        """Return the number of texts, the texts per word, and the occurrences per word."""
        documents: Counter[str] = Counter()
        occurrences: Counter[str] = Counter()
        for each in texts(block.X):
            words = self._analyzer(each)
            documents.update(set(words))
            occurrences.update(words)
        return len(block), documents, occurrences


def _joined(one: Any, other: Any) -> Any:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _limit(share: float, rows: int) -> float:
    return share if isinstance(share, int) else share * rows


class CountVectorizer(TextTransformer, text.CountVectorizer):
    """Counts words in a column each.

    >>> CountVectorizer().fit(["to be", "be"]).vocabulary_
    {'to': 1, 'be': 0}
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        self._words_of(blocks)

    def _words_of(self, blocks: BlockSet) -> tuple[int, Counter[str]]:
        if self.vocabulary is not None:
            self._validate_vocabulary()
            return 0, Counter()
        rows, documents, occurrences = blocks.aggregate(Vocabulary(self.build_analyzer()), _joined)
        low, high = _limit(self.min_df, rows), _limit(self.max_df, rows)
        kept = sorted(word for word, count in documents.items() if low <= count <= high)
        if self.max_features is not None:
            kept = sorted(sorted(kept, key=lambda word: -occurrences[word])[: self.max_features])
        if not kept:
            raise InvalidProgram(f"{type(self).__name__}: no word is left of the texts. Lower min_df, or raise max_df.")
        self.vocabulary_ = {word: place for place, word in enumerate(kept)}
        self.fixed_vocabulary_ = False
        return rows, documents


def document_frequencies(block: Any) -> Any:
    """Return the number of rows, and how many have each feature."""
    from scipy import sparse  # noqa: PLC0415 - slow to load

    rows = block.X if sparse.issparse(block.X) else sparse.csr_array(block.X)
    return np.concatenate([[len(block)], np.bincount(rows.indices, minlength=rows.shape[1])])


class TfidfTransformer(DistributedTransformer, text.TfidfTransformer):
    """Weighs counts of words by how few texts have them.

    >>> TfidfTransformer().fit([[1, 0], [1, 1]]).idf_.round(3).tolist()
    [1.0, 1.405]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        found = blocks.aggregate(document_frequencies, add)
        self.n_features_in_ = len(found) - 1
        if self.use_idf:
            smooth = float(self.smooth_idf)
            self.idf_ = np.log((found[0] + smooth) / (found[1:] + smooth)) + 1.0


class TfidfVectorizer(TextTransformer, text.TfidfVectorizer):
    """Counts words, and weighs them by how few texts have them.

    >>> TfidfVectorizer().fit_transform(["to be", "be"]).shape
    (2, 2)
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        rows, documents = CountVectorizer._words_of(self, blocks)
        if self.vocabulary is not None:
            raise InvalidProgram(
                "TfidfVectorizer with a vocabulary fits arrays only. Use CountVectorizer and TfidfTransformer."
            )
        self._check_params() if hasattr(self, "_check_params") else None
        self._tfidf = text.TfidfTransformer(
            norm=self.norm, use_idf=self.use_idf, smooth_idf=self.smooth_idf, sublinear_tf=self.sublinear_tf
        )
        counts = np.array([documents[word] for word in self.vocabulary_])
        self._tfidf.n_features_in_ = len(counts)
        smooth = float(self.smooth_idf)
        self._tfidf.idf_ = np.log((rows + smooth) / (counts + smooth)) + 1.0
