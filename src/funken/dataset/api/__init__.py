"""The DataSet API: builds logical nodes; only ``collect``, ``count`` and ``print`` execute the program.

May import ``dataset.plan``, ``dataset.optimizer``, ``dataset.runtime``, ``dataset.formats`` and what these may.
"""
