"""What is on the stack of a function that is read, and what its calls are given. May import the modules of ``columnar``."""
