"""What users write: builds logical nodes, runs nothing but ``collect``, ``count`` and ``print``, which execute the program.

May import ``dataset.plan``, ``dataset.optimizer``, ``dataset.runtime``, ``dataset.formats`` and what these may.
"""
