"""One barrier stage of Spark whose tasks exchange frames directly: the stage, its workers, the connections between them.

May import ``spark`` and what that may. What the workers compute is a program of the rooms above.
"""
