"""From a logical plan to the cheapest physical one: strategies, properties, estimates, costs, enumeration.

May import ``dataset.plan`` and what these may.
"""
