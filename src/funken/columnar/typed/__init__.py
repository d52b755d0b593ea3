"""Expressions once the schemas of their arguments are known: what kernels compute, and the schema of the results.

May import: the modules beside it in ``columnar``, but for those that trace functions.
"""
