"""Funken's own reporters. May import ``metrics.reporter`` and what is below; others by name only."""
