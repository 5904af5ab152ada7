"""A memory loop for coding agents: what failed and what helped, recalled when it is needed, verified, made a rule."""

__version__ = "0.1.0"


class ReflexionError(Exception):
    """What was wrong, and what to do about it, for the person who typed the command."""
