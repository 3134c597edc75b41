"""What secrets look like: one row per kind, from the formats that providers document.

A row is a kind and an RE2 expression over bytes; the group is the value. `KEYS` and `TOKENS`
are recognised wherever they stand, `NAMED` and `PASSWORDS` by what stands beside a random value.
"""

from __future__ import annotations

_W = r"[A-Za-z0-9_-]"
_A = "[A-Za-z0-9]"
_B = "[A-Za-z0-9+/]"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_PREFIXES = r"""
    1Password: ops_eyJ; Adafruit: aio_; Adobe: p8e-; age: AGE-SECRET-KEY-1; Alibaba: LTAI;
    Anthropic: sk-ant-; Apify: apify_api_; Artifactory: AKCp cmVmd; Atlassian: ATATT3 ATCTT3 ATBB;
    AWS Bedrock: ABSK; Brevo: xkeysib-; Buildkite: bkua_; CircleCI: CCIPAT_ CCIPRJ_;
    Clojars: CLOJARS_; Cloudflare: v1\.0-; Contentful: CFPAT-; Databricks: dapi; Datadog: ddapp_;
    DigitalOcean: dop_v1_ doo_v1_ dor_v1_; Docker: dckr_pat_ dckr_oat_;
    Doppler: dp\.pt\. dp\.st\. dp\.ct\. dp\.sa\.; Duffel: duffel_test_ duffel_live_;
    Dynatrace: dt0c01\. dt0s01\.; EasyPost: EZAK EZTK; Facebook: EAAM EAAC; Figma: figd_ figo_;
    Fly.io: fm1a_ fm1r_ fm2_ fo1_; Frame.io: fio-u-; Google OAuth: GOCSPX-; Google access: ya29\.;
    GitLab: glpat- gldt- glrt- glptt- glft- glagent- glimt- glsoat- gloas- glcbt- GR1348941;
    Grafana: glsa_ glc_ eyJrIjoi; Groq: gsk_; Heroku: HRKU-; Infracost: ico-;
    Intra42: s-s4t2ud- s-s4t2af-; LangSmith: lsv2_pt_ lsv2_sk_; Linear: lin_api_ lin_oauth_;
    Netlify: nfp_ nfo_ nfc_; New Relic: NRAK- NRII- NRSP-; Notion: ntn_; NVIDIA: nvapi-;
    OpenRouter: sk-or-v1-; OpenShift: sha256~; Perplexity: pplx-; Postman: PMAK-; Prefect: pnu_;
    PlanetScale: pscale_pw_ pscale_tkn_ pscale_oauth_; Pulumi: pul-; PyPI: pypi-AgE; ReadMe: rdme_;
    Replicate: r8_; RubyGems: rubygems_; Sentry: sntryu_ sntrys_; Shippo: shippo_live_;
    Shopify: shpat_ shpca_ shppa_ shpss_ shptka_; SonarQube: squ_ sqp_ sqa_; Sourcegraph: sgp_;
    Square: EAAA sq0atp- sq0csp- sq0idp-; Stripe: sk_live_ rk_live_ whsec_; Supabase: sbp_;
    Tailscale: tskey-; Terraform: atlasv1\.; Typeform: tfp_; Vault: hvs\. hvb\. hvr\.;
    xAI: xai-; Yandex: AQVN t1\.
"""
"""Providers whose tokens begin with something that nothing else does."""

# `\b` stands before each of them.
TOKENS = {
    **{
        f"{name.strip()} token": rf"(?:{'|'.join(starts.split())})([A-Za-z0-9_+/=.-]{{20,}})"
        for name, _, starts in (entry.partition(":") for entry in _PREFIXES.split(";"))
    },
    "1Password key": r"A3-([A-Z0-9]{6}(?:-[A-Z0-9]{5,6}){4,5})",
    "Airtable token": rf"pat({_A}{{14}}\.[a-f0-9]{{64}})",
    "Asana token": r"/[0-9]{16}:([0-9a-f]{32})",
    "AWS access key": r"(?:AKIA|ASIA|ABIA|ACCA)([A-Z2-7]{16})\b",
    "crates.io token": rf"cio({_A}{{32}})\b",
    "Discord webhook": rf"discord(?:app)?\.com/api/webhooks/([0-9]{{17,20}}/{_W}{{60,}})",
    "GitHub token": rf"gh[pousr]_({_A}{{36,255}})\b|github_pat_({_A}{{22}}_{_A}{{59}})\b",
    "Google API key": rf"AIza({_W}{{35}})(?:[^A-Za-z0-9_-]|$)",
    "Harness token": rf"[ps]at\.({_W}{{22}}\.{_A}{{24}}\.{_A}{{20}})",
    "HubSpot token": rf"pat-[a-z]{{2}}[0-9]-({_UUID})",
    "Hugging Face token": r"hf_([A-Za-z]{34})\b",
    "Mailgun key": r"key-([0-9a-f]{32})\b",
    "Mailchimp key": r"([0-9a-f]{32})-us[0-9]{1,2}\b",
    "Mapbox token": rf"sk\.(eyJ{_W}{{50,}}\.{_W}{{22}})",
    "npm token": rf"npm_({_A}{{36}})\b",
    "Octopus key": r"API-([A-Z0-9]{25,30})\b",
    "OpenAI key": rf"sk-(?:[a-z]{{1,12}}-)?({_W}{{16,}}T3BlbkFJ{_W}{{16,}})",
    "Scaleway key": r"SCW([A-Z0-9]{17})\b",
    "SendGrid key": rf"SG\.({_W}{{22}}\.{_W}{{43}})",
    "Slack token": r"xox[abeoprs]-([0-9A-Z]+-[A-Za-z0-9-]{12,})|xapp-([0-9]-[A-Z0-9]+-[a-z0-9-]+)",
    "Slack webhook": rf"hooks\.slack\.com/[a-z]+/(T[A-Z0-9]{{8,}}/{_A}{{8,}}/{_A}{{20,}})",
    "Teams webhook": r"webhook\.office\.com/webhookb2/([0-9a-f@-]+/IncomingWebhook/[a-z0-9]{32})",
    "Telegram token": rf":AA({_W}{{33}})(?:[^A-Za-z0-9_-]|$)",
    "Twilio key": r"SK([0-9a-f]{32})\b",
}

KEYS = {
    "private key": r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"""(?:[\s"'+,#*>]|\\[nr]){0,60}(?:[A-Za-z-]{1,30}: ?[^\n]{0,120}\n\s{0,20}){0,4}"""
    r"([A-Za-z0-9+/]{40,})",
    # "PRIVATE KE" in base64, at each of the three places it can have in a group
    "private key in base64": rf"LS0tLS1CRUdJTi{_B}{{0,40}}"
    rf"(?:UFJJVkFURSBLR|BSSVZBVEUgS0|QUklWQVRFIEtF)({_B}{{40,}})",
    "Azure client secret": r"[0-9]Q~([A-Za-z0-9_~.-]{31,34})",
    "MaxMind key": rf"_({_A}{{29}})_mmk\b",
    "RapidAPI key": r"msh([0-9a-f]{15}p1[0-9a-f]{6}jsn[0-9a-f]{12})\b",
    "password hash": r"\$[156y]\$[./A-Za-z0-9]{8,16}\$([./A-Za-z0-9]{22,86})\b",
    "PuTTY private key": r"(PuTTY-User-Key-File-[23]: \S+)",
    "Ansible vault": r"\$ANSIBLE_VAULT;[0-9.]+;AES256[^\n]*\s+([0-9a-f]{40,})",
}
_GAP = r"""(?:[\s"'+,#*>]|\\[nr])+"""
REST_OF_KEY = (
    rf"[A-Za-z0-9+/=]*(?:{_GAP}[A-Za-z0-9+/=]{{20,}})*"
    rf"(?:(?:{_GAP}[A-Za-z0-9+/=]+)*{_GAP}-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----)?"
)
RESTS = {"private key": REST_OF_KEY, "PuTTY private key": r"(?s:.*?)Private-MAC: [0-9a-fA-F]+"}
"""What follows the match of a kind and is part of the secret."""
RESTS_END = {"private key": b"-----", "PuTTY private key": b""}
"""What a secret ends with that is there to its end."""

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
    "authorization": r"(?i)authorization[\"']?(?:[:=,]|=>)\s{0,4}[\"'`]?(?:basic|bearer|token) "
    rf"({_VALUE}{{20,}}){_EDGE}",
    "registry login": rf"[\"']auth[\"']\s*:\s*[\"']({_B}{{16,}}={{0,2}})[\"']",
    "secret in an address": r"(?i)[?&](?:access_?token|api_?key|key|secret|token|sig|password)="
    rf"([A-Za-z0-9_.%-]{{24,}}){_EDGE}",
    "JSON web key": rf"""[\s"'{{,]d["']?\s*:\s*["']?({_W}{{40,}}){_EDGE}""",
}
"""Random values beside a name or in a place that makes them a secret."""
WEAK_NAMED = NAMED["secret"].replace("{12,}", "{6,}")
"""The same with passwords that people make up, for the other lines of a file with a secret."""
CONTINUED = r"""[\s"'`+#*/>\\(,.-]*([A-Za-z0-9+/=_.~%-]{16,})[\s"'`+,;)\\]*"""

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
}
"""Passwords, which may be short, in places where nothing else stands."""
