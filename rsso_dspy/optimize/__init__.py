"""Compilation: a program learns its prompts from calibration variants, never from held-out ones, and becomes a file."""
