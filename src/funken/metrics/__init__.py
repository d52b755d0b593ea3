"""Counters, gauges, meters and latency histograms. May import ``errors`` only."""
