"""An adapter around another one, for whom DSPy and its users still see that one."""

from typing import Any


class WrappedAdapter:
    """Base class: all that a subclass does not have is the inner adapter's, and so is the class that it shows."""

    def __init__(self, adapter: Any):
        self.adapter = adapter

    def __getattr__(self, name: str) -> Any:
        if name == "adapter":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.adapter, name)

    __class__: Any = property(lambda self: type(self.adapter))  # streaming knows adapters by their class
