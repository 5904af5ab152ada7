"""Metrics, statistics, tables and pages of finished runs. This package needs no model and no simulator."""
