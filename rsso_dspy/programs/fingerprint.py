"""What a program says, as a short hash: two programs with one fingerprint send the same prompts."""

import hashlib
import json

import dspy


def fingerprint(program: dspy.Module) -> str:
    """12 hexadecimal digits over instructions, field texts and demonstrations of every predictor, and what the regions
    of the program's method tell the actor, where it has some of its own."""
    said = {
        name: {"signature": state["signature"], "demos": state["demos"]} for name, state in program.dump_state().items()
    }
    if regions := getattr(getattr(program, "method", None), "regions", ()):
        said["regions"] = {"signature": regions}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]
