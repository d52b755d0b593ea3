"""Loops over blocks that are generated and compiled, with the bodies of simple lambdas in them.

May import ``operators`` and what is below.
"""
