"""The embedded backend: a rule-based, offline stand-in for a language model, so that everything runs without a key.

    lm = dspy.LM("embedded/explorer", engine=Explorer(seed=0), cache=False, temperature=0.7)

It reads only the prompt, and answers in the form that the adapter asks for. Its scores say nothing about language
models.
"""

from rsso_dspy.explorer.explorer import Explorer

__all__ = ["Explorer"]
