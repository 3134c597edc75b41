"""Settings from the environment, with defaults."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """What can be set from outside."""

    port: int = 8000
    debug: bool = False


def load_settings(environment=os.environ):
    """Read SHOP_PORT and SHOP_DEBUG."""
    return Settings(
        port=int(environment.get("SHOP_PORT", "8000")),
        debug=environment.get("SHOP_DEBUG") == "1",
    )
