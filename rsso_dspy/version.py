"""The version of this package, where nothing else has to be imported to know it."""

__version__ = "0.1.0"
