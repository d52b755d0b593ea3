"""Lists and loops over them, for whole blocks. Loads NumPy: import it late from everywhere else.

May import ``columnar.kernels`` and what is below.
"""
