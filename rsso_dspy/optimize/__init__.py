"""Compilation: a program learns its prompts from calibration variants, never from held-out ones, and becomes a file.
`confirm` tests whether one of any two DSPy programs is better, as a compile tests its candidate."""

from rsso_dspy.optimize.verdict import confirm

__all__ = ["confirm"]
