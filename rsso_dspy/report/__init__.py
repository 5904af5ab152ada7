"""Finished runs as numbers: metrics, statistics, tables. Needs no model and no simulator."""
