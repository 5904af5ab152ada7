"""The verbs of `reflexion`."""
