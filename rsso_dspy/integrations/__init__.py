"""Integrations: Ray executes a run, MLflow tracks it."""
