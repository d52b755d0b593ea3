"""Lists and comprehensions in functions: how they are read, and their schemas. May import the modules of ``columnar``."""
