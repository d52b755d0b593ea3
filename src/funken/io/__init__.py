"""File systems and the storage of checkpoints on them. May import ``config`` and ``errors`` only."""
