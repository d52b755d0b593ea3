"""Lists and loops over them, and what declared types make of columns, for whole blocks.

Loads NumPy: import it late from everywhere else. May import ``columnar.kernels`` and what is below.
"""
