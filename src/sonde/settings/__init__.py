"""One frozen `Settings`; the only reader of the environment and of config files."""

from sonde.settings.load import (
    CORTEX_FILE,
    apply_cortex_config,
    apply_project_config,
    find_home,
    load_settings,
    read_key,
    render_config,
)
from sonde.settings.rules import RULES, Rule, Settings

__all__ = [
    "CORTEX_FILE",
    "RULES",
    "Rule",
    "Settings",
    "apply_cortex_config",
    "apply_project_config",
    "find_home",
    "load_settings",
    "read_key",
    "render_config",
]
