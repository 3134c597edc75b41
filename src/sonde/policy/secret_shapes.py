"""What secrets look like: one row per kind, from the formats that providers document.

A row is a kind and an RE2 expression over bytes; the group is the value. `KEYS` and `TOKENS`
are recognised wherever they stand, `NAMED` and `PASSWORDS` by what stands beside a random value.
"""

from __future__ import annotations

_W = r"[A-Za-z0-9_-]"
_A = "[A-Za-z0-9]"
_H = "[0-9a-fA-F]"
_B = "[A-Za-z0-9+/]"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

# `\b` stands before each of them.
TOKENS = {
    "1Password key": rf"A3-([A-Z0-9]{{6}}(?:-[A-Z0-9]{{5,6}}){{4,5}})|ops_(eyJ{_B}{{250,}})",
    "Adafruit key": rf"aio_({_A}{{28}})\b",
    "Adobe secret": r"p8e-([a-z0-9]{32})\b",
    "age key": r"AGE-SECRET-KEY-1([QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58})",
    "Airtable token": rf"pat({_A}{{14}}\.[a-f0-9]{{64}})",
    "Alibaba key": rf"LTAI({_A}{{20}})\b",
    "Anthropic key": rf"sk-ant-[a-z]+[0-9]{{2}}-({_W}{{80,}})",
    "Apify token": rf"apify_api_({_A}{{36}})",
    "Artifactory key": rf"AKCp({_A}{{69}})|cmVmd({_A}{{59}})\b",
    "Asana token": r"[12]/[0-9]{16}/([0-9]{16}:[0-9a-f]{32})",
    "Atlassian token": rf"AT[AC]TT3({_W}{{100,}}=[0-9A-F]{{8}})|ATBB({_A}{{32}})\b",
    "AWS access key": r"(?:AKIA|ASIA|ABIA|ACCA)([A-Z2-7]{16})\b",
    "AWS Bedrock key": rf"ABSK({_B}{{109,}})",
    "Azure client secret": r"([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})",
    "Brevo key": rf"xkeysib-({_H}{{64}}-{_A}{{16}})",
    "Buildkite token": rf"bk[a-z]{{2}}_({_H}{{40}})\b",
    "CircleCI token": rf"CCIP[AR][TJ]_({_A}{{16,}}_{_H}{{40}})",
    "Clojars token": rf"CLOJARS_({_H}{{60}})",
    "Cloudflare key": rf"v1\.0-({_H}{{24}}-{_H}{{146}})",
    "Contentful token": rf"CFPAT-({_W}{{43}})",
    "crates.io token": rf"cio({_A}{{32}})\b",
    "Databricks token": r"dapi([a-f0-9]{32})\b",
    "Datadog key": rf"dda(?:pp|ss)_({_A}{{32,}})",
    "DigitalOcean token": r"do[opr]_v1_([a-f0-9]{64})\b",
    "Discord webhook": rf"discord(?:app)?\.com/api/webhooks/([0-9]{{17,20}}/{_W}{{60,}})",
    "Docker token": rf"dckr_(?:pat|oat)_({_W}{{27,}})",
    "Doppler token": rf"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{{2,35}}\.)?({_A}{{40,44}})\b",
    "Duffel token": rf"duffel_(?:test|live)_({_W}{{43}})",
    "Dynatrace token": r"dt0[a-z]01\.([A-Z0-9]{24}\.[A-Z0-9]{64})",
    "EasyPost key": rf"EZ[AT]K({_A}{{54}})\b",
    "Facebook token": rf"EAA[A-Z]({_A}{{100,}})",
    "Figma token": rf"fig[duo][rh]?_({_W}{{40,}})",
    "Fly.io token": rf"fm[12][ar]?_({_B}{{100,}})|fo1_({_W}{{43}})\b",
    "Frame.io token": rf"fio-u-({_W}{{64}})",
    "GitHub token": rf"gh[pousr]_({_A}{{36,255}})\b|github_pat_({_A}{{22}}_{_A}{{59}})\b",
    "GitLab token": r"(?:gl(?:pat|dt|rt|ptt|ft|agent|imt|soat|ffct|oas|cbt)-|GR1348941)"
    rf"({_W}{{20,}})",
    "Google API key": rf"AIza({_W}{{35}})(?:[^A-Za-z0-9_-]|$)",
    "Google OAuth secret": rf"GOCSPX-({_W}{{28}})",
    "Google access token": rf"ya29\.({_W}{{60,}})",
    "Grafana token": rf"glsa_({_A}{{32}}_{_H}{{8}})|glc_({_B}{{32,}})|eyJrIjoi({_A}{{70,}})",
    "Groq key": rf"gsk_({_A}{{48,}})\b",
    "Harness token": rf"[ps]at\.({_W}{{22}}\.{_A}{{24}}\.{_A}{{20}})",
    "Vault token": rf"hv[sbr]\.({_W}{{24,}})",
    "Terraform token": rf"{_A}{{14}}\.atlasv1\.({_W}{{60,}})",
    "Heroku key": rf"HRKU-({_W}{{30,}})",
    "HubSpot token": rf"pat-[a-z]{{2}}[0-9]-({_UUID})",
    "Hugging Face token": r"hf_([A-Za-z]{34})\b|api_org_([A-Za-z]{34})\b",
    "Infracost key": rf"ico-({_A}{{32}})\b",
    "Intra42 secret": rf"s-s4t2(?:ud|af)-({_H}{{64}})",
    "LangSmith key": rf"lsv2_(?:pt|sk)_({_H}{{32}}_{_H}{{10}})",
    "Linear key": rf"lin_(?:api|oauth)_({_A}{{40,}})",
    "Mailgun key": r"(?:pub)?key-([0-9a-f]{32})\b",
    "Mailchimp key": r"([0-9a-f]{32})-us[0-9]{1,2}\b",
    "Mapbox token": rf"sk\.(eyJ{_W}{{50,}}\.{_W}{{22}})",
    "MaxMind key": rf"({_A}{{6}}_{_A}{{29}})_mmk\b",
    "Netlify token": rf"nf[poc]_({_A}{{36}})\b",
    "New Relic key": rf"NR(?:AK|II|RA|SP|AA)-({_W}{{27,40}})\b",
    "Notion token": rf"ntn_([0-9]{{11}}{_A}{{35}})\b|secret_({_A}{{43}})\b",
    "npm token": rf"npm_({_A}{{36}})\b",
    "NVIDIA key": rf"nvapi-({_W}{{60,}})",
    "Octopus key": r"API-([A-Z0-9]{25,30})\b",
    "OpenAI key": rf"sk-(?:[a-z]{{1,12}}-)?({_W}{{16,}}T3BlbkFJ{_W}{{16,}})",
    "OpenRouter key": r"sk-or-v1-([0-9a-f]{64})",
    "OpenShift token": rf"sha256~({_W}{{43}})",
    "Perplexity key": rf"pplx-({_A}{{48,}})",
    "PlanetScale key": r"pscale_(?:pw|tkn|oauth)_([A-Za-z0-9_=.-]{32,})",
    "Postman key": rf"PMAK-({_H}{{24}}-{_H}{{34}})",
    "Prefect token": rf"pn[ub]_({_A}{{36}})\b",
    "Pulumi token": rf"pul-({_H}{{40}})\b",
    "PyPI token": rf"pypi-AgE[A-Za-z0-9]({_W}{{50,}})",
    "RapidAPI key": r"([0-9a-f]{10}msh[0-9a-f]{15}p1[0-9a-f]{6}jsn[0-9a-f]{12})\b",
    "ReadMe key": r"rdme_([a-z0-9]{70})",
    "Replicate token": rf"r8_({_A}{{37}})\b",
    "RubyGems key": rf"rubygems_({_H}{{48}})\b",
    "Scaleway key": r"SCW([A-Z0-9]{17})\b",
    "SendGrid key": rf"SG\.({_W}{{22}}\.{_W}{{43}})",
    "Sentry token": rf"sntry[us]_({_W}{{64,}})",
    "Shippo key": rf"shippo_live_({_H}{{40}})",
    "Shopify token": rf"shp(?:at|ca|pa|ss|tka)_({_H}{{32}})\b",
    "Slack token": r"xox[abeoprs]-([0-9A-Z]{1,}-[A-Za-z0-9-]{12,})"
    r"|xapp-([0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]{40,})",
    "Slack webhook": r"hooks\.slack\.com/(?:services|workflows|triggers)/"
    rf"(T[A-Z0-9]{{8,}}/{_A}{{8,}}/{_A}{{20,}})",
    "SonarQube token": rf"sq[upa]_({_H}{{40}})\b",
    "Sourcegraph token": rf"sgp_(?:(?:{_H}{{16}}|local)_)?({_H}{{40}})\b",
    "Square token": rf"EAAA({_W}{{56,64}})\b|sq0[a-z]{{3}}-({_W}{{22,43}})",
    "Stripe key": rf"[rs]k_live_({_A}{{20,}})|whsec_({_B}{{24,}})",
    "Supabase key": rf"sbp_({_H}{{40}})\b|sb_secret_({_W}{{22,}})",
    "Tailscale key": rf"tskey-(?:[a-z]+-)?({_A}{{8,}}-{_A}{{20,}})",
    "Teams webhook": r"webhook\.office\.com/webhookb2/"
    rf"({_UUID}@{_UUID}/IncomingWebhook/[a-z0-9]{{32}})",
    "Telegram token": rf"([0-9]{{8,10}}:AA{_W}{{33}})(?:[^A-Za-z0-9_-]|$)",
    "Twilio key": r"SK([0-9a-f]{32})\b",
    "Typeform token": rf"tfp_({_W}{{40,}})",
    "xAI key": rf"xai-({_A}{{70,}})",
    "Yandex key": rf"AQVN({_W}{{35,38}})\b|t1\.[A-Z0-9a-z_-]+[=]{{0,2}}\.({_W}{{86}})",
}

KEYS = {
    "private key": r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"""(?:[\s"'+,#*>]|\\[nr]){0,60}(?:[A-Za-z-]{1,30}: ?[^\n]{0,120}\n\s{0,20}){0,4}"""
    r"([A-Za-z0-9+/]{40,})",
    # "PRIVATE KE" in base64, at each of the three places it can have in a group
    "private key in base64": rf"LS0tLS1CRUdJTi{_B}{{0,40}}"
    rf"(?:UFJJVkFURSBLR|BSSVZBVEUgS0|QUklWQVRFIEtF)({_B}{{40,}})",
    "password hash": r"\$[156y]\$[./A-Za-z0-9]{8,16}\$([./A-Za-z0-9]{22,86})\b",
    "PuTTY private key": r"(PuTTY-User-Key-File-[23]: \S+)",
    "Ansible vault": r"\$ANSIBLE_VAULT;[0-9.]+;AES256[^\n]*\s+([0-9a-f]{40,})",
}
_GAP = r"""(?:[\s"'+,#*>]|\\[nr])+"""
REST_OF_KEY = (
    rf"[A-Za-z0-9+/=]*(?:{_GAP}[A-Za-z0-9+/=]{{20,}})*"
    rf"(?:(?:{_GAP}[A-Za-z0-9+/=]+)*{_GAP}-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----)?"
)
RESTS = {
    "private key": REST_OF_KEY,
    "PuTTY private key": r"(?s:.*?)Private-MAC: [0-9a-fA-F]+",
}
"""What follows the match of a kind and is part of the secret."""

_EDGE = r"""(?:["'`\s;,<&)\\}\]|]|$)"""
_NAME = (
    r"(?:secret|token|passw(?:or)?d|passphrase|pwd|pepper|credentials?|_auth|api[_.-]?key|"
    r"(?:access|account|admin|app|auth|encryption|io|license|master|primary|private|role|rapidapi|"
    r"server|service|shared|signing|storage|write|wallet)[_.-]?key|preshared_?key)"
)
_ASSIGN = (
    # closing quotes or a type, then what assigns in some language, then an opening quote
    r"""(?:["'\])]+[ \t]*|[ \t]*(?::[ \t]?[A-Za-z]+|[ \t][A-Za-z]+)?[ \t]*)"""
    r"""(?:=>|:=|[?:.+]?=+|:+=?|,|value=|>)\s*(?:b|\\)?["'`]?"""
)
_VALUE = r"[A-Za-z0-9+/=_.~!$%^*:-]"
NAMED = {
    "secret": rf"(?i){_NAME}[A-Za-z0-9_.-]*{_ASSIGN}({_VALUE}{{12,}}){_EDGE}",
    "secret in a header": r"(?i)\bx-(?:[a-z]+-){1,3}(?:key|token|secret)[\"']?: ?[\"']?"
    rf"({_VALUE}{{16,}}){_EDGE}",
    "authorization": r"(?i)authorization[\"']?(?:[:=,]|=>)\s{0,4}[\"'`]?(?:basic|bearer|token) "
    rf"({_VALUE}{{20,}}){_EDGE}",
    "registry login": rf"[\"']auth[\"']\s*:\s*[\"']({_B}{{16,}}={{0,2}})[\"']",
    "secret in an address": r"(?i)[?&](?:access_?token|api_?key|key|secret|token|sig|password)="
    rf"([A-Za-z0-9_.%-]{{24,}}){_EDGE}",
    "JSON web key": rf"""[\s"'{{,]d["']?\s*:\s*["']?({_W}{{40,}}){_EDGE}""",
}
"""Random values beside a name or in a place that makes them a secret."""

_SCHEMES = (
    r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|https?|ftps?|sftp|smtps?|imaps?|ldaps?|"
    r"mssql|sqlserver|oracle|nats|kafka|clickhouse|couchbase|cockroachdb|cloudinary|ssh|snowflake)"
    r"(?:\+[a-z0-9]+)?"
)
_TYPED = r"[A-Za-z0-9!$%^*_.~+=-]"
PASSWORDS = {
    "password in an address": rf"\b{_SCHEMES}://[A-Za-z0-9_.%+-]*:({_TYPED}{{8,}})@"
    r"[A-Za-z0-9\[]",
    "password in a connection string": r"(?i)[;?&\"' ](?:amp;)?"
    rf"(?:password|pwd|accountkey|sharedaccesskey)=({_TYPED}{{8,}}|{_B}{{43,86}}={{1,2}})"
    r"[;&\"'\s<]",
    "password of Oracle": rf"jdbc:oracle:thin:[a-zA-Z0-9_]{{1,30}}/({_TYPED}{{8,}})@",
    "password on a command line": r"(?:\bcurl [^\n]*(?:-u|--user)[ =][\"']?"
    r"[A-Za-z0-9_.@-]+:|\s--password[= ][\"']?|\bsshpass -p ?[\"']?|(?:PGPASSWORD|MYSQL_PWD)="
    rf"[\"']?)({_TYPED}{{8,}}){_EDGE}",
    "netrc login": r"\bmachine\s+\S{1,80}\s+login\s+\S{1,80}\s+password\s+"
    rf"({_TYPED}{{8,}})",
    "password in XML": r"(?i)<password>([^<>\s${}]{8,100})</password>",
}
"""Passwords, which may be short, in places where nothing else stands."""

HINTS = {
    "Asana token": r"/[0-9]{16}:[0-9a-f]{32}",
    "Azure client secret": r"[0-9]Q~[A-Za-z0-9_~.-]{31}",
    "Mailchimp key": r"[0-9a-f]{4}-us[0-9]",
    "MaxMind key": r"_mmk\b",
    "RapidAPI key": r"msh[0-9a-f]{15}p1",
    "Telegram token": rf"[0-9]:AA{_W}{{33}}",
    "Terraform token": r"\.atlasv1\.",
}
"""What the search for all kinds at once looks for, where the whole would begin at every word."""
