"""Keys and tokens are found by what they look like; examples of them are not."""

from __future__ import annotations

import random
import string
import time

import pytest

from sonde.policy.secrets import redact_secrets, secret_in

_dice = random.Random(7)


def make_random(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(_dice.choices(alphabet, k=length))


def make_key(kind: str, newline: str = "\n", indent: str = "") -> str:
    lines = [make_random(64) for _ in range(4)]
    body = newline.join(indent + line for line in lines)
    # The dashes are put together here so that this file itself may be indexed.
    edge = "-" * 5
    head, foot = f"{edge}BEGIN {kind}{edge}", f"{edge}END {kind}{edge}"
    return f"{indent}{head}{newline}{body}{newline}{indent}{foot}"


_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
SECRETS = {
    "private key": make_key("RSA PRIVATE KEY"),
    "private key (in YAML)": "key: |\n" + make_key("PRIVATE KEY", indent="    "),
    "private key (in JSON)": '{"private_key": "' + make_key("PRIVATE KEY", newline="\\n") + '"}',
    "private key (in code)": make_key("EC PRIVATE KEY", newline='\\n"\n  "'),
    "private key (with Windows lines)": make_key("OPENSSH PRIVATE KEY", newline="\r\n"),
    "private key (of PGP)": make_key("PGP PRIVATE KEY BLOCK").replace("\n", "\nVersion: 1\n\n", 1),
    "private key (encrypted)": make_key("RSA PRIVATE KEY").replace(
        "\n", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB\n\n", 1
    ),
    "AWS access key": "aws_id = " + "AKIA" + make_random(16, _UPPER),
    "GitHub token": "token: " + "ghp_" + make_random(36),
    "GitHub token (fine)": "github" + "_pat_" + make_random(22) + "_" + make_random(59),
    "GitLab token": "glpat" + "-" + make_random(20),
    "Slack token": "xoxb" + "-" + make_random(12, "56789") + "-" + make_random(24),
    "Slack webhook": f"https://hooks.slack.com/services/T{make_random(9, _UPPER)}/"
    f"B{make_random(9, _UPPER)}/{make_random(24)}",
    "Google API key": '"AIza' + make_random(35) + '"',
    "OpenAI key": "sk-" + make_random(20) + "T3Blbk" + "FJ" + make_random(20),
    "Anthropic key": "sk-ant" + "-api03-" + make_random(93) + "AA",
    "Stripe key": "sk_live" + "_" + make_random(24),
    "npm token": "npm" + "_" + make_random(36),
    "PyPI token": "pypi-" + "AgEIcHlwaS5vcmc" + make_random(70),
    "Hugging Face token": "hf" + "_" + make_random(34, string.ascii_letters),
    "SendGrid key": "SG" + "." + make_random(22) + "." + make_random(43),
    "DigitalOcean token": "dop_v1" + "_" + make_random(64, "0123456789abcdef"),
    "PuTTY private key": "PuTTY-User-Key" + "-File-3: ssh-ed25519\nEncryption: none\n"
    f"Private-Lines: 1\n{make_random(48)}\nPrivate-MAC: {make_random(64, '0123456789abcdef')}",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_named_with_its_line_and_without_its_value(name: str) -> None:
    found = secret_in(f"first\nsecond é\n{SECRETS[name]}\nlast\n")
    kind = name.partition(" (")[0]
    line = 4 if name == "private key (in YAML)" else 3
    assert found == f"{kind} on line {line}"


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_taken_out_of_a_text_and_what_is_around_it_stays(name: str) -> None:
    kind, secret = name.partition(" (")[0], SECRETS[name]
    kept, count = redact_secrets(f"first é\n{secret}\n\nbetween: {secret}\n\nlast\n")
    assert count == 2
    assert kept.count(f"[{kind} left out]") == 2
    assert secret_in(kept) is None
    assert secret.split()[-1] not in kept
    assert kept.startswith("first é\n")
    assert "between: " in kept
    assert kept.endswith("last\n")


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "AKIAXXXXXXXXXXXXXXXX",
        "XAKIA" + make_random(17, _UPPER),
        "ghp_" + "x" * 36,
        "ghp_1234567890abcdefghijklmnopqrstuvwxyz",
        "ghp_your_token_here",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA...\n-----END RSA PRIVATE KEY-----",
        'if "-----BEGIN PRIVATE KEY-----" in text: raise ValueError("a private key is here")',
        make_key("PUBLIC KEY"),
        make_key("CERTIFICATE"),
        "task-manager-with-a-very-long-name-that-goes-on-and-on-for-quite-some-time",
        "sk-proj-...",
        "sk_test_" + make_random(24),
        "xoxb-your-token",
        "hf_hub_download(repo_id=name, filename=config_file_name_that_is_long)",
        "npm_config_registry_and_a_very_long_variable_name_here",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THs",
        "",
    ],
)
def test_what_only_looks_like_one_passes(text: str) -> None:
    assert secret_in(text) is None
    assert redact_secrets(text) == (text, 0)


def test_a_real_token_after_an_example_is_still_found() -> None:
    text = "AKIAIOSFODNN7EXAMPLE\n" + SECRETS["AWS access key"]
    assert secret_in(text) == "AWS access key on line 2"


def test_looking_is_fast_even_through_text_full_of_beginnings() -> None:
    hostile = "AKIA ghp_ npm_ hf_ SG. xoxb-1 -----BEGIN PRIVATE KEY-----\n" * 16_000
    started = time.process_time()
    assert secret_in(hostile) is None
    assert time.process_time() - started < 2.0
