"""The demonstration of recovery: a program whose results can be checked, and what kills its workers and draws it.

May import the public surface, ``cli`` and what is below.
"""
