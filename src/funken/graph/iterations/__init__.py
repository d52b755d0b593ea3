"""Iterations with a user's function per vertex, as delta iterations: only active vertices cost anything.

May import ``funken.graph.core`` and ``records``, and the DataSet API.
"""
