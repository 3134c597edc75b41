"""Secrets are found by what they look like and stand beside; examples of them are not."""

from __future__ import annotations

import random
import string
import time

import pytest
from tests.policy.secret_kinds import list_variants

from sonde.policy.admit import find_denied
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
    "Anthropic token": "sk-ant" + "-api03-" + make_random(93) + "AA",
    "Stripe token": "sk_live" + "_" + make_random(24),
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


VARIANTS = list(list_variants())


def is_left_out(path: str, text: str) -> bool:
    return find_denied(path) is not None or secret_in(text, path) is not None


@pytest.mark.parametrize("seen", [True, False])
def test_at_least_95_of_100_variants_of_every_family_are_found(seen: bool) -> None:
    assert len({variant.kind for variant in VARIANTS}) >= 150
    for family in {variant.family for variant in VARIANTS}:
        chosen = [one for one in VARIANTS if (one.family, one.seen) == (family, seen)]
        missed = [one for one in chosen if not is_left_out(one.path, one.text)]
        assert len(missed) <= 0.05 * len(chosen), [(one.kind, one.path) for one in missed]


def test_what_is_found_can_be_taken_out() -> None:
    for variant in VARIANTS:
        if variant.value and secret_in(variant.text):
            kept, count = redact_secrets(f"before é\n{variant.text}\nafter")
            assert count >= 1
            assert variant.value not in kept
            assert kept.startswith("before é\n")
            assert kept.endswith("\nafter")


@pytest.mark.parametrize("word", ["TEST", "1234", "ABCD", "FAKE"])
def test_a_real_key_may_contain_what_examples_do(word: str) -> None:
    key = "AKIA" + make_random(5, _UPPER.replace("2", "")) + word + make_random(16 - 5 - 4, _UPPER)
    assert secret_in(key.replace("1234", "2345")) is not None
    assert secret_in("ghp" + f"_{make_random(16)}{word}{make_random(16)}") is not None


@pytest.mark.parametrize(
    "text",
    [
        'password = "hunter2"',
        'password = os.environ["DB_PASSWORD"]',
        "token = request.headers.get_authorization_token(default=None)",
        'API_KEY = "your-api-key-goes-in-here-please"',
        "export TOKEN=${VAULT_TOKEN_FROM_SOMEWHERE}",
        "postgres://user:password@localhost:5432/app",
        "postgres://user:${DB_PASSWORD}@db/app",
        "redis://:changeme-please@localhost",
        "https://user:p%40ss%3Aw%2Frd@example.com",
        'PublicKeyToken="b77a5c561934e089b77a5c561934e089"',
        "csrf_token = '" + make_random(64) + "'",
        "password: pbkdf2_sha256$30000$" + make_random(12) + "$" + make_random(43) + "=",
        "ETAG_TOKEN = 'd41d8cd98f00b204e9800998ecf8427e'",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "docsearch({ apiKey: '" + make_random(32, "0123456789abcdef") + "', indexName: 'x' })",
        "secret_key: abcdefghijklmnopqrstuvwxyz0123456789",
        "passwordResetTokenGenerator = PasswordResetTokenGeneratorFactory.newInstance2()",
        "sha256: " + make_random(64, "0123456789abcdef"),
    ],
)
def test_what_people_write_is_no_secret(text: str) -> None:
    assert secret_in(text) is None


def test_random_values_beside_a_name_are_made_up_in_tests_and_tokens_are_not() -> None:
    guess = f'SECRET = "{make_random(40)}"'
    assert secret_in(guess, "app/settings.py") == "secret on line 1"
    for path in (
        "tests/csrf.py",
        "src/test_a.py",
        "pkg/a_test.go",
        "web/a.spec.ts",
        "A/FooTest.kt",
    ):
        assert secret_in(guess, path) is None
        assert secret_in(SECRETS["GitHub token"], path) == "GitHub token on line 1"
    assert secret_in(guess, "app/latest.py") is not None
    assert secret_in(guess, "contest/settings.py") is not None


def test_looking_is_fast_even_through_text_full_of_beginnings() -> None:
    hostile = "AKIA ghp_ npm_ hf_ SG. xoxb-1 -----BEGIN PRIVATE KEY-----\n" * 16_000
    started = time.process_time()
    assert secret_in(hostile) is None
    assert time.process_time() - started < 2.0
