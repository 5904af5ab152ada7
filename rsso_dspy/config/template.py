"""A configuration file with everything in it, to start from."""

import json

from pydantic import BaseModel

from rsso_dspy.config.sections import Config, PriceConfig, RoleOverride


def template() -> str:
    """A TOML file with every default, each key under a comment that says what it is."""
    return "\n".join(_lines(Config, Config(), "")) + "\n"


def _lines(model: type[BaseModel], values: BaseModel, section: str) -> list[str]:
    plain, tables = [], []
    for name, field in model.model_fields.items():
        value = getattr(values, name)
        note = " ".join((field.description or "").split())
        if isinstance(value, BaseModel):
            path = f"{section}{name}"
            tables += ["", f"# {note}", f"[{path}]", *_lines(type(value), value, f"{path}.")]
        elif name == "backends":
            for backend, settings in value.items():
                path = f"{name}.{backend}"
                tables += ["", f"[{path}]", *_lines(type(settings), settings, f"{path}.")]
        elif name == "roles":
            tables += [f"# [{section}roles.actor]  # overrides of one role: {', '.join(RoleOverride.model_fields)}"]
        elif name == "prices":
            tables += ["", f"# {note}", f'# [prices."provider/model"]  # {", ".join(PriceConfig.model_fields)}']
        else:
            literal = json.dumps(value) if value is not None else None
            plain += [f"# {note}", f"{name} = {literal}" if literal else f"# {name} ="]
    return plain + tables
