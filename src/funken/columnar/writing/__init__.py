"""Texts that functions write: formats and JSON, as they are traced and typed. May import the modules of ``columnar``."""
