"""Where a result came from: what its folder is bound to, and what its records carry."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rsso_dspy import __version__
from rsso_dspy.config import Config
from rsso_dspy.protocol.presets import Preset


def identity(config: Config, preset: Preset) -> dict[str, Any]:
    """What all results of a folder depend on; a run of another identity is refused."""
    return {
        "protocol": preset.id,
        "config": config.resolved(),
        "config_hash": config.hash(),
        "scienceworld": version("scienceworld"),
    }


def provenance(config: Config) -> dict[str, str]:
    """What each record carries. Nothing in it changes between two runs of the same installation."""
    return {
        "config_hash": config.hash(),
        "rsso_dspy": __version__,
        "scienceworld": version("scienceworld"),
        "dspy": version("dspy"),
        "python": platform.python_version(),
        "commit": commit(),
    }


def commit() -> str:
    """Git commit of the source tree, or `release` for an installed package."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return "release"
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
