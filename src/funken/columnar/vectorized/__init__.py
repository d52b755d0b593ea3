"""Functions over whole blocks, ``@funken.vectorized``: their mark, and the declarations of their results.

``operators/columnar`` calls them. May import the modules of ``columnar``, and ``types``.
"""
