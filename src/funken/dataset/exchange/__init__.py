"""Exchanges of batch programs: how records are dealt out, the ranges of a sample, and the edges between tasks of one process.

May import ``dataset.columns`` and what that may.
"""
