"""Workflows over runs: reproduce, monitor, build a constitution."""
