"""Compilation: a program learns its prompts from calibration variants, never from held-out ones, and becomes a file.

`confirm` tests whether one of any two DSPy programs is better, as a compile tests its candidate.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rsso_dspy.optimize.confirming import confirm

__all__ = ["confirm"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from rsso_dspy.optimize import confirming

        return getattr(confirming, name)
    raise AttributeError(f"module 'rsso_dspy.optimize' has no attribute {name!r}; it offers {', '.join(__all__)}")
