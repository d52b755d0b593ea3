"""Execution of a physical plan: drivers per subtask, exchanges between them, and the executor of this process.

May import ``dataset.optimizer``, ``dataset.exchange``, ``dataset.formats`` and what these may.
"""
