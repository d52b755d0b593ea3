"""One address for all jobs of a user on a machine: those that run in any driver, and those that are archived.

May import what ``rest`` may, and ``rest``.
"""
