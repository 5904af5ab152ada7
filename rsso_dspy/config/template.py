"""A configuration file with every key, as a template."""

from typing import Any

from pydantic import BaseModel

from rsso_dspy.config.models import PriceConfig, RoleOverride
from rsso_dspy.config.sections import Config


def render_config_template() -> str:
    """Render a TOML file with every default, each key below a comment that explains it."""
    import tomlkit

    document: tomlkit.TOMLDocument = _fill_table(tomlkit.document(), Config(), "")
    return document.as_string()


def _fill_table(table: Any, values: BaseModel, section: str) -> Any:
    """Render a TOML table with these values; `section` is the prefix of the names in its header."""
    import tomlkit
    from tomlkit import comment

    for name, field in type(values).model_fields.items():
        value = getattr(values, name)
        note = " ".join((field.description or "").split())
        if isinstance(value, BaseModel):
            table.add(name, _fill_table(tomlkit.table().comment(note), value, f"{section}{name}."))
        elif name == "backends":
            backends = tomlkit.table(is_super_table=True)
            for backend, settings in value.items():
                backends.add(backend, _fill_table(tomlkit.table(), settings, f"{name}.{backend}."))
            table.add(name, backends)
        elif name == "roles":
            keys = ", ".join(RoleOverride.model_fields)
            table.add(comment(f"[{section}roles.actor]  # overrides of one role: {keys}"))
        elif name == "prices":
            keys = ", ".join(PriceConfig.model_fields)
            table.add(tomlkit.nl()).add(comment(note)).add(comment(f'[prices."provider/model"]  # {keys}'))
        else:
            table.add(comment(note))
            table.add(comment(f"{name} =")) if value is None else table.add(name, value)
    return table
