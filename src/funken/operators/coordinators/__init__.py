"""Operator coordinators: the halves of operators that run on the driver.

``base.py`` is the contract; the others are the coordinators of sources and sinks. May import ``connectors`` and what is below.
"""
