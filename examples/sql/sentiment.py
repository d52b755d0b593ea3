"""The model of predict.sql: any function of Python is one."""

GOOD = {"good", "great", "fresh"}
BAD = {"bad", "stale"}


def label(text):
    """Return whether a review is good, and how sure that is."""
    words = set(text.lower().split())
    score = len(words & GOOD) - len(words & BAD)
    return ("good" if score > 0 else "bad" if score < 0 else "unknown"), abs(score) / len(words)
