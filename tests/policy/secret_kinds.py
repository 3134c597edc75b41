"""Kinds of secrets, made from public descriptions of their formats.

Values are random and made when they are needed, so no file of the repository contains one. A field
such as `{A36}` stands for that many characters of an alphabet; prefixes are written as the
providers document them. Every kind is written into several files (its variants). Half of the
variants, chosen by a seed, are the ones that rules were written against; the rest tell how well
the rules do on what their author has not looked at.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

SEED = 20261116
_ALNUM = string.ascii_letters + string.digits
_ALPHABETS = {
    "A": _ALNUM,
    "a": string.ascii_lowercase + string.digits,
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "U": string.ascii_uppercase + "234567",
    "u": string.ascii_uppercase + string.digits,
    "d": string.digits,
    "w": _ALNUM + "_-",
    "b": _ALNUM + "+/",
    "L": string.ascii_letters,
    "p": _ALNUM + "!$%^*_-.",
    "B": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}
_UUID = "{h8}-{h4}-4{h3}-a{h3}-{h12}"

TOKENS: dict[str, str] = {
    "1Password secret key": "A3-{u6}-{u6}-{u5}-{u5}-{u5}-{u5}",
    "1Password service account": "ops_eyJ{A300}",
    "Adafruit key": "aio_{A28}",
    "Adobe client secret": "p8e-{a32}",
    "age secret key": "AGE-SECRET-KEY-1{B58}",
    "Airtable token": "pat{A14}.{h64}",
    "Alibaba access key": "LTAI{A20}",
    "Anthropic key": "sk-ant-api03-{w93}AA",
    "Anthropic admin key": "sk-ant-admin01-{w93}AA",
    "Apify token": "apify_api_{A36}",
    "Artifactory key": "AKCp{A69}",
    "Asana token": "2/{d16}/{d16}:{h32}",
    "Atlassian token": "ATATT3xFfGF0{w180}={H8}",
    "AWS access key": "AKIA{U16}",
    "AWS temporary key": "ASIA{U16}",
    "AWS Bedrock key": "ABSK{b120}",
    "Azure client secret": "{A3}8Q~{A34}",
    "Bitbucket token": "ATBB{A32}",
    "Brevo key": "xkeysib-{h64}-{A16}",
    "Buildkite token": "bkua_{h40}",
    "CircleCI token": "CCIPAT_{A22}_{h40}",
    "Clojars token": "CLOJARS_{h60}",
    "Cloudflare origin key": "v1.0-{h24}-{h146}",
    "Cloudinary address": "cloudinary://{d15}:{w27}@{a10}",
    "Contentful token": "CFPAT-{w43}",
    "crates.io token": "cio{A32}",
    "Databricks token": "dapi{h32}",
    "Datadog application key": "ddapp_{A34}",
    "DigitalOcean token": "dop_v1_{h64}",
    "DigitalOcean OAuth token": "doo_v1_{h64}",
    "DigitalOcean refresh token": "dor_v1_{h64}",
    "Discord webhook": "https://discord.com/api/webhooks/{d18}/{w68}",
    "Docker Hub token": "dckr_pat_{w27}",
    "Doppler token": "dp.pt.{A43}",
    "Doppler service token": "dp.st.prd.{A43}",
    "Duffel token": "duffel_live_{w43}",
    "Dynatrace token": "dt0c01.{u24}.{u64}",
    "EasyPost key": "EZAK{A54}",
    "Facebook page token": "EAAM{A120}",
    "Figma token": "figd_{w40}",
    "Fly.io token": "fm2_{b120}",
    "Frame.io token": "fio-u-{w64}",
    "GitHub token": "ghp_{A36}",
    "GitHub OAuth token": "gho_{A36}",
    "GitHub user token": "ghu_{A36}",
    "GitHub server token": "ghs_{A36}",
    "GitHub refresh token": "ghr_{A76}",
    "GitHub fine-grained token": "github_pat_{A22}_{A59}",
    "GitLab token": "glpat-{w20}",
    "GitLab routable token": "glpat-{w27}.{a2}{a7}",
    "GitLab deploy token": "gldt-{w20}",
    "GitLab runner token": "glrt-{w20}",
    "GitLab pipeline token": "glptt-{h40}",
    "GitLab job token": "glcbt-64_{w20}",
    "GitLab feed token": "glft-{w20}",
    "GitLab agent token": "glagent-{w50}",
    "GitLab OAuth secret": "gloas-{h64}",
    "GitLab mail token": "glimt-{a25}",
    "GitLab registration token": "GR1348941{w20}",
    "Google API key": "AIza{w35}",
    "Google OAuth secret": "GOCSPX-{w28}",
    "Google access token": "ya29.{w120}",
    "Grafana service token": "glsa_{A32}_{h8}",
    "Grafana cloud token": "glc_{b80}",
    "Groq key": "gsk_{A52}",
    "Harness token": "pat.{w22}.{A24}.{A20}",
    "HashiCorp Vault token": "hvs.{w95}",
    "HashiCorp Vault batch token": "hvb.{w140}",
    "Terraform Cloud token": "{A14}.atlasv1.{w64}",
    "Heroku key": "HRKU-AA{w58}",
    "HubSpot token": "pat-na1-{h8}-{h4}-{h4}-{h4}-{h12}",
    "Hugging Face token": "hf_{L34}",
    "Infracost key": "ico-{A32}",
    "Intra42 secret": "s-s4t2ud-{h64}",
    "LangSmith key": "lsv2_pt_{h32}_{h10}",
    "Linear key": "lin_api_{A40}",
    "Mailgun key": "key-{h32}",
    "Mailchimp key": "{h32}-us12",
    "Mapbox secret token": "sk.eyJ1{A70}.{w22}",
    "MaxMind licence key": "{A6}_{A29}_mmk",
    "MongoDB Atlas address": "mongodb+srv://app:{A16}@cluster0.{a5}.mongodb.net/shop",
    "Netlify token": "nfp_{A36}",
    "New Relic user key": "NRAK-{u27}",
    "Notion token": "ntn_{d11}{A35}",
    "npm token": "npm_{A36}",
    "NVIDIA key": "nvapi-{w64}",
    "Octopus key": "API-{u26}",
    "OpenAI key": "sk-{A20}T3BlbkFJ{A20}",
    "OpenAI project key": "sk-proj-{w74}T3BlbkFJ{w74}",
    "OpenRouter key": "sk-or-v1-{h64}",
    "OpenShift token": "sha256~{w43}",
    "Perplexity key": "pplx-{A48}",
    "PlanetScale password": "pscale_pw_{w43}",
    "PlanetScale token": "pscale_tkn_{w43}",
    "Postman key": "PMAK-{h24}-{h34}",
    "Prefect token": "pnu_{A36}",
    "Pulumi token": "pul-{h40}",
    "PyPI token": "pypi-AgEIcHlwaS5vcmc{w90}",
    "ReadMe token": "rdme_{a70}",
    "Replicate token": "r8_{A37}",
    "RubyGems key": "rubygems_{h48}",
    "Scaleway access key": "SCW{u17}",
    "SendGrid key": "SG.{w22}.{w43}",
    "Sentry user token": "sntryu_{h64}",
    "Shippo key": "shippo_live_{h40}",
    "Shopify token": "shpat_{h32}",
    "Shopify shared secret": "shpss_{h32}",
    "Shopify custom app token": "shpca_{h32}",
    "Slack bot token": "xoxb-{d12}-{d12}-{A24}",
    "Slack user token": "xoxp-{d12}-{d12}-{d12}-{h32}",
    "Slack app token": "xapp-1-A{u10}-{d13}-{h64}",
    "Slack webhook": "https://hooks.slack.com/services/T{u10}/B{u10}/{A24}",
    "SonarQube token": "squ_{h40}",
    "Sourcegraph token": "sgp_{h16}_{h40}",
    "Square token": "EAAA{w60}",
    "Square OAuth secret": "sq0csp-{w43}",
    "Stripe key": "sk_live_{A24}",
    "Stripe restricted key": "rk_live_{A99}",
    "Stripe webhook secret": "whsec_{A32}",
    "Supabase key": "sbp_{h40}",
    "Tailscale key": "tskey-auth-k{A11}CNTRL-{A32}",
    "Teams webhook": f"https://acme.webhook.office.com/webhookb2/{_UUID}@{_UUID}"
    f"/IncomingWebhook/{{h32}}/{_UUID}",
    "Telegram bot token": "{d10}:AA{w33}",
    "Twilio key": "SK{h32}",
    "Typeform token": "tfp_{w44}_{A14}",
    "xAI key": "xai-{A80}",
    "Yandex key": "AQVN{w36}",
}
"""Tokens that are recognised wherever they stand."""

KEYED: dict[str, tuple[str, str]] = {
    "Algolia admin key": ("algolia_admin_key", "{h32}"),
    "Alibaba secret key": ("alibaba_secret_key", "{A30}"),
    "Auth0 client secret": ("auth0_client_secret", "{w64}"),
    "AWS secret key": ("aws_secret_access_key", "{b40}"),
    "AWS session token": ("aws_session_token", "{b200}"),
    "Azure storage key": ("azure_storage_key", "{b86}=="),
    "Azure OpenAI key": ("azure_openai_api_key", "{h32}"),
    "Azure Cosmos key": ("cosmos_primary_key", "{b86}=="),
    "bcrypt pepper": ("password_pepper", "{A32}"),
    "Bugsnag key": ("bugsnag_api_key", "{h32}"),
    "client secret": ("client_secret", "{A40}"),
    "Cloudflare token": ("cloudflare_api_token", "{w40}"),
    "Codecov token": ("codecov_token", _UUID),
    "Cohere key": ("cohere_api_key", "{A40}"),
    "Confluent secret": ("confluent_api_secret", "{b64}"),
    "consumer secret": ("consumer_secret", "{A50}"),
    "database password": ("db_password", "{p18}"),
    "Datadog key": ("datadog_api_key", "{h32}"),
    "Django secret key": ("secret_key", "{p50}"),
    "Discord client secret": ("discord_client_secret", "{w32}"),
    "Dropbox token": ("dropbox_access_token", "sl.{w135}"),
    "encryption key": ("encryption_key", "{b43}="),
    "Fastly token": ("fastly_api_token", "{w32}"),
    "Firebase server key": ("firebase_server_key", "AAAA{w7}:APA91b{w134}"),
    "Heroku UUID key": ("heroku_api_key", _UUID),
    "IBM Cloud key": ("ibm_cloud_api_key", "{w44}"),
    "JWT signing secret": ("jwt_secret", "{A48}"),
    "JWT as a credential": ("service_role_key", "jwt"),
    "Kafka SASL password": ("sasl_password", "{A24}"),
    "LDAP bind password": ("ldap_bind_password", "{p16}"),
    "Mailjet secret": ("mailjet_secret_key", "{h32}"),
    "Mattermost token": ("mattermost_access_token", "{a26}"),
    "Mixpanel secret": ("mixpanel_api_secret", "{h32}"),
    "NextAuth secret": ("nextauth_secret", "{b43}="),
    "Okta token": ("okta_api_token", "00{w40}"),
    "PagerDuty key": ("pagerduty_api_key", "{w20}"),
    "Plaid secret": ("plaid_secret", "{h30}"),
    "private key in hex": ("wallet_private_key", "0x{h64}"),
    "Pusher secret": ("pusher_app_secret", "{h20}"),
    "Rails secret": ("secret_key_base", "{h128}"),
    "RapidAPI key": ("rapidapi_key", "{h10}msh{h15}p1{h6}jsn{h12}"),
    "refresh token": ("refresh_token", "{w64}"),
    "Segment write key": ("segment_write_key", "{A32}"),
    "session secret": ("session_secret", "{A32}"),
    "SMTP password": ("smtp_password", "{A22}"),
    "Snowflake password": ("snowflake_password", "{p20}"),
    "Splunk HEC token": ("splunk_hec_token", _UUID),
    "Travis token": ("travis_token", "{A22}"),
    "Twilio auth token": ("twilio_auth_token", "{h32}"),
    "Twitter bearer token": ("twitter_bearer_token", "AAAAAAAAAAAAAAAAAAAAA{A90}"),
    "Vercel token": ("vercel_token", "{A24}"),
    "webhook secret": ("github_webhook_secret", "{h40}"),
    "Wasabi secret": ("wasabi_secret_key", "{A40}"),
    "Zendesk token": ("zendesk_api_token", "{A40}"),
}
"""Random values that only the name beside them makes a credential: name, value."""

CONTEXTS: tuple[tuple[str, str], ...] = (
    ("deploy.sh", "export {N}={v}\n"),
    ("settings.py", '{N} = "{v}"\n'),
    ("config.yaml", "service:\n  {n}: {v}\n"),
    ("config.yml", 'service:\n  {n}: "{v}"\n'),
    ("config.json", '{"region": "eu", "{n}": "{v}"}\n'),
    ("main.go", '\t{c} := "{v}"\n'),
    ("server.go", '\tvar {c} string = "{v}"\n'),
    ("client.ts", "const options = { {c}: '{v}' };\n"),
    ("app.js", 'process.env.{N} = "{v}";\n'),
    ("config.php", "  '{n}' => '{v}',\n"),
    ("application.properties", "app.{d}={v}\n"),
    ("app.ini", "[service]\n{n} = {v}\n"),
    ("config.toml", "[service]\n{n} = '{v}'\n"),
    ("main.tf", '  {n} = "{v}"\n'),
    ("Client.java", '  private static final String {N} = "{v}";\n'),
    ("Client.cs", '  string {c} = "{v}";\n'),
    ("App.config", '  <add key="{N}" value="{v}" />\n'),
    ("settings.xml", "  <{c}>{v}</{c}>\n"),
    ("docker-compose.yml", "    environment:\n      - {N}={v}\n"),
    ("Dockerfile", "ENV {N}={v}\n"),
    ("Makefile", "{N} ?= {v}\n"),
    ("initializer.rb", "  config.{n} = '{v}'\n"),
    ("notes.md", "Use this one:\n\n    {N}={v}\n"),
    ("run.ps1", '$env:{N} = "{v}"\n'),
    ("task.kts", 'System.setProperty("{N}", "{v}")\n'),
    ("job.log.txt", "2026-01-02 INFO started with {n}={v} in 3 ms\n"),
    ("book.ipynb", '{"source": ["{N} = \'{v}\'\\n"]}\n'),
)
"""File names, and lines with the name (n, N, c for camel case, d for dashes) and the value."""


@dataclass(frozen=True)
class Variant:
    """One file with a secret of a kind."""

    kind: str
    family: str
    path: str
    text: str
    value: str
    seen: bool
    """Whether rules were written against it."""


def fill(template: str, dice: random.Random) -> str:
    """The template with random characters; the result is varied, as real values are."""

    def draw(field: re.Match[str]) -> str:
        return "".join(dice.choices(_ALPHABETS[field[1]], k=int(field[2])))

    if template == "jwt":
        return make_jwt(dice)
    return re.sub(r"\{(\w)(\d+)\}", draw, template)


def make_jwt(dice: random.Random) -> str:
    """A signed token, whose signature nothing made."""
    parts = [{"alg": "HS256", "typ": "JWT"}, {"iss": "shop", "role": fill("{a9}", dice)}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join([part.rstrip("=") for part in encoded] + [fill("{w43}", dice)])


def write_context(line: str, name: str, value: str) -> str:
    """A line with a name and a value in it."""
    first, *rest = name.split("_")
    forms = {
        "{N}": name.upper(),
        "{n}": name,
        "{c}": first + "".join(word.title() for word in rest),
        "{d}": name.replace("_", "-"),
        "{v}": value,
    }
    for field, form in forms.items():
        line = line.replace(field, form)
    return line


def list_variants(per_kind: int = 8, seed: int = SEED) -> Iterator[Variant]:
    """Every kind in several files, the same for the same seed."""
    from tests.policy.secret_files import NAMES, STRUCTURES

    dice = random.Random(seed)
    simple = {kind: ("setting", value) for kind, value in TOKENS.items()}
    for family, table in (("token", simple), ("named value", KEYED)):
        for kind, (name, template) in table.items():
            for number, (path, line) in enumerate(dice.sample(CONTEXTS, per_kind)):
                value = fill(template, dice)
                text = write_context(line, name, value)
                yield Variant(kind, family, path, text, value, number % 2 == 0)
    for kind, made in STRUCTURES.items():
        yield from _list_structures(kind, made, dice)
    for kind, names in NAMES.items():
        for number, path in enumerate(dice.sample(names, len(names))):
            yield Variant(kind, "file name", path, "region = eu\n", "", number % 2 == 0)


def _list_structures(
    kind: str, made: list[tuple[str, Callable[[random.Random], str]]], dice: random.Random
) -> Iterator[Variant]:
    for number, (path, make) in enumerate(made * (1 if len(made) > 1 else 2)):
        yield Variant(kind, "structure", path, make(dice), "", number % 2 == 0)
