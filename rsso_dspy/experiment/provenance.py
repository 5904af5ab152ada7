"""Where a result came from: what its folder is bound to, and what its records carry."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import rsso_dspy.signatures as signatures
from rsso_dspy.config import Config
from rsso_dspy.environments import Interface
from rsso_dspy.environments.benchmark import Benchmark
from rsso_dspy.experiment.protocols import NamedProtocol, resolve_protocol
from rsso_dspy.version import __version__

NOTHING_CARRIED: Mapping[str, str] = {}


def make_run_identity(
    config: Config, preset: NamedProtocol, carried: Mapping[str, str] = NOTHING_CARRIED
) -> dict[str, Any]:
    """What all results of a folder depend on; a run of another identity is refused. `carried` gives the digests of the
    memories that its units start from, by memory."""
    return {
        **({"carried": dict(carried)} if carried else {}),
        "protocol": preset.id,
        "config": config.resolve_settings(),
        "config_hash": config.hash(),
        "prompts": hash_prompts(config.active_benchmark, preset.rules.interface),
        "rsso_dspy": __version__,
        "dspy": version("dspy"),
        **config.active_benchmark.origin(),
    }


def make_provenance(config: Config) -> dict[str, str]:
    """What each record carries. Nothing in it changes between two runs of the same installation."""
    return {
        "config_hash": config.hash(),
        "prompts": hash_prompts(config.active_benchmark, resolve_protocol(config).rules.interface),
        "rsso_dspy": __version__,
        **config.active_benchmark.origin(),
        "dspy": version("dspy"),
        "python": platform.python_version(),
        "commit": read_commit(),
    }


def hash_prompts(of: Benchmark, interface: Interface = "sso") -> str:
    """12 hexadecimal digits over everything that the zero-shot programs say to a model: the instructions and fields of
    all signatures, and the action templates of the benchmark; of those that variants word anew, the words."""
    texts = [of.action_templates]
    if interface != "sso":
        texts += [of.interfaces.get(interface, ""), *signatures.WORDS]
    for name in (name for name in signatures.__all__ if name != "ErrorRule"):
        signature = getattr(signatures, name)
        fields = [
            (key, str(field.annotation), field.json_schema_extra["desc"]) for key, field in signature.fields.items()
        ]
        texts.append(f"{name} {signature.instructions} {fields}")
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def read_commit() -> str:
    """Git commit of the source tree, with `+dirty` when it holds changes, or `release` for an installed package."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return "release"
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+dirty"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
