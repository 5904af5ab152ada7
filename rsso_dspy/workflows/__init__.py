"""Workflows over runs: reproduce, monitor, sweep, build a constitution."""
