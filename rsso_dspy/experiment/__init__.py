"""A run: protocol, plan, execution and limits."""
