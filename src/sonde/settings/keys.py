"""The key of an embedding service: in the environment, read when it is used, kept nowhere."""

from __future__ import annotations

import os
import re

from sonde.errors import EmbeddingFailed

_OPENAI = "OPENAI_API_KEY"
LOOPBACK = re.compile(r"https?://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?(/\S*)?")
"""Addresses on this machine."""


def read_key(variable: str, address: str) -> str:
    """The key for the service at an address (none: OpenAI itself).

    OpenAI's own key is for OpenAI alone: another service gets the key in the variable that was
    named for it, or none, and none at all where others could read it on its way.
    """
    is_openai = not address or address.startswith("https://api.openai.com/")
    name = variable or (_OPENAI if is_openai else "")
    key = os.environ.get(name, "").strip() if name else ""
    if name and not re.fullmatch(r"[\x21-\x7e]+", key):
        raise EmbeddingFailed(
            f"{name} holds no key" if key else f"{name} is not set",
            user_message="The key of the embedding service is missing.",
            next_action=f"Set the environment variable {name}.",
        )
    if key and address.startswith("http://") and not LOOPBACK.fullmatch(address):
        raise EmbeddingFailed(
            "a key would be sent over http in the clear",
            user_message="The key of the embedding service would be sent unencrypted.",
            next_action="Use an https address for `embeddingEndpoint`.",
        )
    return key
