"""Identity of a run's folder and provenance of its records."""

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
    """Return what all results of a folder depend on; the folder refuses any other identity.

    `carried` maps memories to the digests of the files that units start from.
    """
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
    """Return the provenance of each record. It is equal for all runs of one installation."""
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
    """Hash the prompts of the zero-shot programs into 12 hexadecimal digits.

    Covers instructions and fields of `signatures.__all__` and the benchmark's action templates; for templates that vary
    with the variant, their common texts. Signatures of the writers of entries are not in `__all__`: the
    fingerprint of each arm's program covers them.
    """
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
    """Return the git commit of the source tree, with `+dirty` for changes, or `release` for an installed package."""
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
