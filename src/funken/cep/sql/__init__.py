"""SQL's MATCH_RECOGNIZE clause as a pattern stream. May import ``cep`` and what that may."""
