"""The reporters that come with Funken. May import ``metrics.reporter`` and what is below; others by name only."""
