"""How a physical plan runs: drivers per subtask, exchanges between them, and the executor of this process."""
