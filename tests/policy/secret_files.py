"""Secrets that are a structure or a whole file: connection strings, key files, configurations."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

from tests.policy.secret_kinds import fill, make_jwt

Made = tuple[str, Callable[[random.Random], str]]
_DASHES = "-" * 5  # put together here, so that this file may be indexed


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def written(path: str, template: str) -> Made:
    return path, lambda dice: fill(template, dice)


def make_pem(kind: str, dice: random.Random, newline: str = "\n") -> str:
    lines = [fill("{b64}", dice) for _ in range(6)] + [fill("{b30}", dice) + "=="]
    marks = [f"{_DASHES}BEGIN {kind}{_DASHES}", *lines, f"{_DASHES}END {kind}{_DASHES}"]
    return newline.join(marks) + newline


def pem(kind: str) -> list[Made]:
    return [
        ("notes.txt", lambda dice: make_pem(kind, dice)),
        ("key.py", lambda dice: f'KEY = """{make_pem(kind, dice)}"""\n'),
        ("key.json", lambda dice: '{"key": "' + make_pem(kind, dice, "\\n") + '"}\n'),
        ("values.yaml", lambda dice: "key: |\n  " + make_pem(kind, dice, "\n  ") + "\n"),
    ]


def address(scheme: str, rest: str = "/shop") -> list[Made]:
    """A connection string with a password, as settings write it."""
    there = f"{scheme}://app_user:{{A14}}@db-3.internal.acme.io{rest}"
    return [
        written("settings.py", f'URL = "{there}"\n'),
        written("config.yaml", f"url: {there}\n"),
        written("README.md", f"Connect to `{there}`.\n"),
        written("app.properties", f"store.url={scheme}://svc:{{p16}}@10.20.0.7{rest}\n"),
        written("compose.yml", f"      URL: '{scheme}://admin:{{A9}}7x@db.acme.io{rest}'\n"),
        written("main.rs", f'let url = "{scheme}://u:{{w22}}@cache.acme.net{rest}";\n'),
    ]


def _kubeconfig(dice: random.Random) -> str:
    key = encode(make_pem("RSA PRIVATE KEY", dice))
    return (
        f"apiVersion: v1\nkind: Config\nusers:\n- name: me\n  user:\n    client-key-data: {key}\n"
    )


def _kube_token(dice: random.Random) -> str:
    return (
        f"apiVersion: v1\nkind: Config\nusers:\n- name: me\n  user:\n    token: {make_jwt(dice)}\n"
    )


def _kube_secret(dice: random.Random) -> str:
    value = encode(fill("{p18}", dice))
    return f"apiVersion: v1\nkind: Secret\ntype: Opaque\ndata:\n  password: {value}\n"


def _kube_secret_json(dice: random.Random) -> str:
    value = encode(fill("{A24}", dice))
    return f'{{"apiVersion": "v1", "kind": "Secret", "data": {{"token": "{value}"}}}}\n'


def _docker_auth(dice: random.Random) -> str:
    auth = encode("me:" + fill("{A20}", dice))
    return f'{{"auths": {{"ghcr.io": {{"auth": "{auth}"}}}}}}\n'


def _service_account(dice: random.Random) -> str:
    key = make_pem("PRIVATE KEY", dice, "\\n")
    return f'{{"type": "service_account", "private_key": "{key}"}}\n'


STRUCTURES: dict[str, list[Made]] = {
    "RSA private key": pem("RSA PRIVATE KEY"),
    "EC private key": pem("EC PRIVATE KEY"),
    "PKCS#8 private key": pem("PRIVATE KEY"),
    "encrypted private key": pem("ENCRYPTED PRIVATE KEY"),
    "OpenSSH private key": pem("OPENSSH PRIVATE KEY"),
    "DSA private key": pem("DSA PRIVATE KEY"),
    "PGP private key": pem("PGP PRIVATE KEY BLOCK"),
    "private key in base64": [
        ("values.yaml", lambda dice: f"tls: {encode(make_pem('PRIVATE KEY', dice))}\n"),
        ("ci.sh", lambda dice: f"KEY={encode(make_pem('RSA PRIVATE KEY', dice))}\n"),
        ("a.ts", lambda dice: f"const k = '{encode(make_pem('EC PRIVATE KEY', dice))}';\n"),
        ("b.json", lambda dice: f'{{"k": "{encode(make_pem("OPENSSH PRIVATE KEY", dice))}"}}\n'),
    ],
    "PuTTY private key": [
        written("a.txt", "PuTTY-User-Key" "-File-3: ssh-ed25519\nPrivate-Lines: 1\n{b48}\n"
                         "Private-MAC: {h64}\n"),
        written("b.txt", "PuTTY-User-Key" "-File-2: ssh-rsa\nPrivate-Lines: 1\n{b64}\n"
                         "Private-MAC: {h40}\n"),
    ],
    "JSON web key": [
        written("jwk.json", '{"kty": "EC", "crv": "P-256", "d": "{w43}", "x": "{w43}"}\n'),
        written("jwks.ts", "const jwk = { kty: 'OKP', crv: 'Ed25519', d: '{w43}' };\n"),
        written("jwk.yaml", "kty: RSA\nd: {w342}\nn: {w342}\n"),
        written("k.json", '{"d":"{w86}","kty":"RSA","e":"AQAB"}\n'),
    ],
    "WireGuard key": [
        written("wg0.conf", "[Interface]\nPrivateKey = {b43}=\nAddress = 10.0.0.1/24\n"),
        written("peer.conf", "[Peer]\nPresharedKey = {b43}=\n"),
        written("wg.nix", '  privateKey = "{b43}=";\n'),
        written("wg.md", "    PrivateKey={b43}=\n"),
    ],
    "kubeconfig with a key": [("kube.yaml", _kubeconfig), ("admin.conf", _kubeconfig)],
    "kubeconfig with a token": [("kube.yaml", _kube_token), ("cluster.yml", _kube_token)],
    "Kubernetes secret": [("secret.yaml", _kube_secret), ("all.json", _kube_secret_json)],
    "Docker registry login": [(".docker/config.json", _docker_auth), ("pull.yml", _docker_auth)],
    "service account of Google": [("sa.json", _service_account), ("gcp.txt", _service_account)],
    "PostgreSQL address": address("postgres"),
    "PostgreSQL address (long)": address("postgresql", ":5432/shop?sslmode=require"),
    "SQLAlchemy address": address("postgresql+psycopg2"),
    "MySQL address": address("mysql"),
    "MongoDB address": address("mongodb"),
    "Redis address": address("redis", ":6379/0"),
    "Redis address (TLS)": address("rediss", ":6380"),
    "AMQP address": address("amqp", ":5672/vhost"),
    "HTTPS address with a password": address("https", "/git/shop.git"),
    "FTP address": address("ftp", "/upload"),
    "SMTP address": address("smtp", ":587"),
    "LDAP address": address("ldap", "/dc=acme"),
    "SQL Server address": address("mssql", ":1433/shop"),
    "Oracle address": address("oracle", ":1521/ORCL"),
    "NATS address": address("nats", ":4222"),
    "Redis address without a user": [
        written("a.py", 'URL = "redis://:{A24}@cache.acme.io:6379/1"\n'),
        written("b.yml", "redis: redis://:{h32}@10.1.2.3:6379\n"),
    ],
    "Sentry address": [
        written("a.py", 'dsn = "https://{h32}:{h32}@sentry.acme.io/4"\n'),
        written("b.js", "Raven.config('https://{h32}:{h32}@sentry.io/1234')\n"),
    ],
    "GitHub token in an address": [
        written("a.sh", "git clone https://x-access-token:{A40}@github.com/acme/shop\n"),
        written("b.md", "`https://{a12}:{A30}@github.com/acme/shop.git`\n"),
    ],
    "ADO.NET connection string": [
        written("Web.config", 'connectionString="Server=db;User Id=sa;Password={A16};"\n'),
        written("app.json", '{"Db": "Server=tcp:x.database.windows.net;Uid=app;Pwd={A18};"}\n'),
        written("a.cs", '"Data Source=db1;Initial Catalog=s;User ID=s;Password={p17}"\n'),
        written("b.yml", "db: Host=db;Username=app;Password={A20};Database=shop\n"),
    ],
    "JDBC connection string": [
        written("a.java", 'get("jdbc:mysql://db/shop?user=app&password={A15}")\n'),
        written("b.xml", "<url>jdbc:postgresql://db/s?user=a&amp;password={A18}</url>\n"),
        written("c.properties", "url=jdbc:sqlserver://db:1433;user=sa;password={A16};\n"),
        written("d.yml", "url: jdbc:oracle:thin:scott/{A16}@db:1521:ORCL\n"),
    ],
    "libpq connection string": [
        written("a.py", 'connect("host=db dbname=shop user=app password={A16}")\n'),
        written("b.sh", 'psql "host=10.0.0.4 user=app password={p15} sslmode=require"\n'),
    ],
    "Azure storage connection string": [
        written("a.json", '"AccountName=shop;AccountKey={b86}==;EndpointSuffix=x"\n'),
        written("b.env.txt", "S=DefaultEndpointsProtocol=https;AccountKey={b86}==\n"),
    ],
    "Azure shared access key": [
        written("a.cs", '"Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={b43}="\n'),
        written("b.py", "C = 'HostName=h;DeviceId=d;SharedAccessKey={b43}='\n"),
    ],
    "Azure SAS address": [
        written("a.md", "https://shop.blob.core.windows.net/c?sv=2022&sp=r&sig={A43}%3D\n"),
        written("b.py", 'U = "https://s.blob.core.windows.net/x?se=2030&sig={A40}%2F{A6}%3D"\n'),
    ],
    "AWS signed address": [
        written("a.md", "https://s3.x.com/b?X-Amz-Credential=AKIA{U16}%2F2026&X-Amz-Signature={h64}\n"),
        written("b.md", "https://b.s3.amazonaws.com/f?AWSAccessKeyId=AKIA{U16}&Signature={A27}%3D\n"),
    ],
    "basic authorization header": [
        ("a.sh", lambda dice: f"-H 'Authorization: Basic {encode('me:' + fill('{A18}', dice))}'\n"),
        ("a.http", lambda dice: f"Authorization: Basic {encode('svc:' + fill('{p20}', dice))}\n"),
        ("a.js", lambda dice: f"Authorization: 'Basic {encode('api:' + fill('{h32}', dice))}'\n"),
        ("a.py", lambda dice: f'"Authorization": "Basic {encode("u:" + fill("{A24}", dice))}"\n'),
    ],
    "bearer authorization header": [
        written("a.sh", "curl -H 'Authorization: Bearer {A40}' https://api.acme.io\n"),
        ("b.http", lambda dice: f"Authorization: Bearer {make_jwt(dice)}\n"),
        written("c.js", "headers: { Authorization: 'Bearer {w48}' }\n"),
        written("d.py", 'h = {"Authorization": "Bearer {h64}"}\n'),
    ],
    "key in a header": [
        written("a.sh", 'curl -H "X-Api-Key: {A40}" https://api.acme.io\n'),
        written("b.http", "X-Auth-Token: {h32}\n"),
        written("c.py", 'h = {"X-API-KEY": "{A32}"}\n'),
        written("d.yml", "    x-vault-token: s.{A24}\n"),
    ],
    "curl with a password": [
        written("a.sh", "curl -u admin:{A18} https://nexus.acme.io\n"),
        written("b.md", "    curl --user 'me:{p16}' https://api.acme.io\n"),
        written("c.yml", "  - curl -s -u deploy:{w20} https://x.io\n"),
        written("d.txt", 'curl -X POST --user "api:key-{h32}" https://x.io\n'),
    ],
    "password on a command line": [
        written("a.sh", "mysql -h db -u root --password={A16} shop\n"),
        written("b.sh", "PGPASSWORD={A18} psql -h db\n"),
        written("c.yml", "  run: docker login -u me --password {A20}\n"),
        written("d.sh", "sshpass -p '{p14}7' ssh host\n"),
    ],
    "token in a query": [
        written("a.md", "https://api.acme.io/v1/items?access_token={A40}\n"),
        written("b.js", "fetch('https://api.acme.io/x?api_key={h32}&limit=3')\n"),
        written("c.py", 'u = "https://maps.acme.io/?units=m&apikey={A32}"\n'),
        written("d.txt", "https://acme.io/hook?secret={A32}\n"),
    ],
    "npm login": [
        written("npmrc.txt", "//registry.npmjs.org/:_authToken={h8}-{h4}-4{h3}-a{h3}-{h12}\n"),
        written(".npmrc", "//npm.acme.io/:_authToken={A36}\n"),
        written(".yarnrc.yml", 'npmAuthToken: "{A32}"\n'),
        ("n.md", lambda dice: f"_auth={encode('me:' + fill('{A20}', dice))}\n"),
    ],
    "login of an agent": [
        written(".codex/auth.json", '{"tokens": {"access_token": "{A60}"}}\n'),
        written(".config/gh/hosts.yml", "github.com:\n    oauth_token: gho_{A36}\n"),
        written("auth.json", '{"github-oauth": {"github.com": "ghp_{A36}"}}\n'),
        written(".netlify/config.json", '{"users": {"1": {"auth": {"token": "{w40}"}}}}\n'),
    ],
    "netrc line": [
        written("setup.sh", "machine api.acme.io login me password {A20}\n"),
        written("notes.txt", "machine github.com\n  login me\n  password {A40}\n"),
    ],
    "Maven server": [
        written("settings.xml", "<server><id>x</id><password>{A18}</password></server>\n"),
        written("m.xml", "  <username>me</username>\n  <password>{p16}3</password>\n"),
    ],
    "NuGet login": [
        written("NuGet.Config", '<add key="ClearTextPassword" value="{A32}" />\n'),
        written("n.xml", '<add key="Password" value="{b40}" />\n'),
    ],
    "Ansible vault": [
        written("a.yml", "$ANSIBLE_VAULT;1.1;AES256\n{h80}\n{h80}\n"),
        written("b.yml", "password: !vault |\n  $ANSIBLE_VAULT;1.2;AES256;dev\n  {h80}\n  {h80}\n"),
    ],
    "password hash of Unix": [
        written("shadow.txt", "root:$6${A16}${A86}:19000:0:99999:7:::\n"),
        written("cloud.yml", "    passwd: $6${A12}${A86}\n"),
    ],
    "SSH host key of Dropbear in hex": [
        written("a.txt", "private_key = {h64}\n"), written("b.yml", "ssh_private_key: {h128}\n"),
    ],
    "Rails credentials key": [
        written("config/master.key.txt", "RAILS_MASTER_KEY={h32}\n"),
        written("a.yml", "  rails_master_key: {h32}\n"),
    ],
}  # fmt: skip

NAMES: dict[str, list[str]] = {
    ".env and its kin": [".env", ".env.production", ".env.local", ".ENV", ".Env.Staging"],
    "named .env": ["prod.env", "docker/db.env", "local.ENV", "staging.env"],
    ".envrc": [".envrc", "app/.envrc"],
    "copies of .env": [".env~", ".env_old", "#.env#", "Copy of .env", ".env.bak", ".env copy",
                       ".env-backup", "env.bak/.env.swp", ".env (1)", ".env.orig", ".#.env"],
    "key files": ["server.pem", "server.key", "a.p12", "a.pfx", "a.p8", "key.asc.key", "x.jks"],
    "copies of key files": ["x.pem.bak", "server.key.txt", "server.key.old", "a.p12~",
                            "tls.key.2024", "Copy of server.key", "site.pem.orig"],
    "SSH keys": ["id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "id_ecdsa_sk", "id_ed25519_sk"],
    "copies of SSH keys": ["id_rsa.bak", "id_rsa.old", "id_ed25519~", "Copy of id_rsa",
                           "id_rsa_backup", "id_rsa.txt"],
    "folders of keys": [".ssh/config", ".gnupg/x", ".aws/config", ".kube/config", ".azure/a.json",
                        ".gcloud/x"],
    "Terraform variables": ["terraform.tfvars", "prod.auto.tfvars", "x.tfvars.json"],
    "Terraform state": ["terraform.tfstate", "terraform.tfstate.backup", "x.tfstate.17.backup"],
    "database logins": [".my.cnf", ".pgpass", ".mylogin.cnf", "pgpass.conf"],
    "tool logins": [".netrc", "_netrc", ".pypirc", ".git-credentials", ".htpasswd",
                    ".s3cfg", ".boto", ".dockercfg", ".vault-token", ".terraformrc"],
    "credential files": ["credentials", "credentials.json", ".cargo/credentials.toml",
                         ".credentials", "credentials.yml", "client_secret.json",
                         "client_secret_1.apps.json", "service-account.json"],
    "secrets files": ["secrets.yml", "secrets.yaml", "secrets.json", "config/secrets.toml",
                      ".secrets", "secret.json", "local.secrets.json", "secrets.env"],
    "key stores": ["a.keystore", "a.kdbx", "a.jks", "a.ppk", "a.ovpn", "login.keychain-db",
                   "debug.bks", "wallet.dat"],
    "Rails keys": ["config/master.key", "config/credentials/production.key"],
    "shell histories": [".bash_history", ".zsh_history", ".psql_history", ".mysql_history",
                        ".python_history", ".node_repl_history"],
    "cloud logins": ["application_default_credentials.json", "accessTokens.json",
                     "gha-creds-1.json", "kubeconfig", "my.kubeconfig", "kubeconfig.yaml"],
    "names disguised": [".e\u200bnv", ".env\ufe0f", ".env\U000e0020", ".env\u115f", ".env\u3164",
                        ".env\u180b", "server.k\u2060ey", ".env\u00a0", "\u200e.env", ".env\u2800"],
}  # fmt: skip
