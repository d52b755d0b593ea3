"""Records that a function changes: how that is read of its bytecode, and typed. May import the modules of ``columnar``."""
