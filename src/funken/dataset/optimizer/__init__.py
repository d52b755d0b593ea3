"""From a logical plan to the cheapest physical one: strategies, properties, estimates, costs, enumeration."""
