"""The driver's half of a job: the job master, its checkpoints, its sources, and the runner for one process.

May import all of ``runtime``, ``checkpoint`` and what is below.
"""
