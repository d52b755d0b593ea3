"""What functions of ``flat_map`` give: how it is read of their bytecode, and typed. May import the modules of ``columnar``."""
