"""Operators with their state in each of the backends."""

from tests.state.conftest import backend, one_database

__all__ = ["backend", "one_database"]
