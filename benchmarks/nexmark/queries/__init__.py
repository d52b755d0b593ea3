"""The queries, a few to a module; ``catalogue`` lists them."""
