"""The connections of the REST server, below the application. May import what is below ``rest``, and ``rest.security``."""
