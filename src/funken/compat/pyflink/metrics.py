"""Metrics with PyFlink's names."""

from __future__ import annotations

from funken.metrics.registry import Counter, Distribution, Gauge, Meter, MetricGroup

Metric = Counter | Gauge | Meter | Distribution

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
