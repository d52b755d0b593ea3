"""What users write: builds logical nodes, runs nothing but ``collect``, ``count`` and ``print``, which execute the program."""
