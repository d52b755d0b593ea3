"""Operators with their state in each of the backends."""

from tests.state.conftest import backend, databases, one_database

__all__ = ["backend", "databases", "one_database"]
