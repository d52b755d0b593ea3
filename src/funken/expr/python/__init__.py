"""Python's operations on values: one row each, with its types, its function, and the kernels that compute it for a block.

The kernels are named, not loaded: reading a function needs no NumPy. May import ``expr``, ``types`` and the lowest layers.
"""
