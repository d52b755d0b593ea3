"""Blocks by key: which group a record is in, what groups come to, joins of blocks, and blocks as they travel between tasks.

Loads NumPy: import it late from everywhere else. May import ``columnar.kernels`` and what is below.
"""
