"""The version of this package, without other imports."""

__version__ = "0.1.0"
