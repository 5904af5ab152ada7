"""Matplotlib, which is an extra of its own: where it is not installed, the error says how to have it."""

from typing import TYPE_CHECKING

from rsso_dspy.errors import NotInstalled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def import_figure_class() -> "type[Figure]":
    """Matplotlib's figure. Raises `NotInstalled` when it is not installed."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("matplotlib"):
            raise
        raise NotInstalled(
            "figures need matplotlib, which is not installed: pip install 'rsso-dspy[figures]'"
        ) from None
    return Figure
