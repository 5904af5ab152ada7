"""Integrations: Ray executes a run."""
