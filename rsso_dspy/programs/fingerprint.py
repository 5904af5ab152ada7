"""Fingerprints of programs: two programs with the same fingerprint send the same prompts."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import dspy


def fingerprint_program(program: dspy.Module) -> str:
    """Return 12 hexadecimal digits that hash instructions, field texts and demonstrations of every predictor."""
    return fingerprint_state(program.dump_state())


def fingerprint_state(state: Mapping[str, Any]) -> str:
    said = {name: {"signature": each["signature"], "demos": each["demos"]} for name, each in state.items()}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]
