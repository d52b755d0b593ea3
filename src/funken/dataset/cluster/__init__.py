"""A batch job on Spark: the subtasks of one index in each worker, exchanges between workers, the half of the driver.

May import ``dataset.runtime`` and what that may, and ``spark``.
"""
