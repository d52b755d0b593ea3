"""Blocks of columns and the kernels that compute on them. Loads NumPy: import it late from everywhere else.

May import ``columnar`` and what is below.
"""
