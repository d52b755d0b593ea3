"""Managed memory: budgets counted in serialised bytes, and the structures that spill when theirs is used up.

May import ``dataset.plan`` and what these may.
"""
