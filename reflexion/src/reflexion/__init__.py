"""A memory loop for coding agents: what failed and what helped, recalled when it is needed, verified, made a rule."""

__version__ = "0.1.0"
