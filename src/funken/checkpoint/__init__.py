"""Distributed snapshots, the half on the driver and in the storage: who is asked when, and what is kept where."""
