"""Secrets that commands print, gone; what looks like one and is none, kept."""

import json

import payloads
import pytest
from conftest import NOW, read_entries
from payloads import SECRET
from reflexion.secrets import load_kinds, strike_out_secrets


def mix(*parts: str) -> str:
    """A secret put together here, so that no scanner finds it in this file."""
    return "".join(parts)


HEX = "9f86d081884c7d659a2feaa0c55ad015"
LONG = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9fG1hJ3kL5mN7pQ9rS1tU3v"

SECRETS = [
    ("private key", "-----BEGIN RSA PRIVATE KEY-----\n", "MIIEowIBAAKCAQEA7bq", "\n-----END RSA PRIVATE KEY-----"),
    ("private key", "-----BEGIN OPENSSH PRIVATE KEY-----\n", "b3BlbnNzaC1rZXktdjE", ""),
    ("putty private key", "Private-Lines: 1\n", "AAAAB3NzaC1yc2EAAAADAQAB", ""),
    ("age secret key", "", mix("AGE-SECRET-", "KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"), ""),
    ("authorization header", "> Authorization: Basic ", "dXNlcjpodW50ZXIy", ""),
    ("authorization header", '{"authorization": "token ', "0a1b2c3d4e5f6a7b", '"}'),
    ("header named like a secret", "curl -H 'X-Api: ", "secretvalue", "' https://example.org"),
    ("header named like a secret", "curl --header x-auth:", "hunter22", " localhost"),
    ("header named like a secret", "< X-Acme-Secret: ", "a1b2", ""),
    ("header named like a secret", "X-Vault-Token: ", "dev-root", ""),
    ("header named like a secret", '{"X-Session-Id": "', "blue-green-red", '"}'),
    ("bearer token", "curl -H 'X: Bearer ", "abcdef0123456789abcdef", "'"),
    ("cookie", "Set-Cookie: ", "sid=9f8d7c6b5a4e", ""),
    ("session id", "GET /?PHPSESSID=", "n4k2l1m5o6p7q8r9", ""),
    (
        "user and password in an address",
        "fatal: unable to access 'https://",
        "bob:hunter22",
        "@git.example.org/x.git/'",
    ),
    ("user and password in an address", "postgres://", "app:s3cr3t", "@db:5432/shop"),
    ("token as user in an address", "https://", "a1b2c3d4e5f6a7b8c9", "@git.example.org/x"),
    ("password option", "psql --password=", "hunter22", " -h db"),
    ("password option", "login --token ", "tok12345", ""),
    ("password option", "deploy --db-password '", "with space", "'"),
    ("mysql password", "mysql -u root -p", "hunter22", " shop"),
    ("curl user", "curl -u ", "bob:hunter22", " http://x"),
    ("sshpass password", "sshpass -p ", "hunter22", " ssh x"),
    ("named value", "DB_PASSWORD=", "hunter22", ""),
    ("named value", '"client_secret": "', "Zx9-hunter", '"'),
    ("named value", "export API_KEY='", "k-2931-az", "'"),
    ("named value", "aws_secret_access_key = ", mix("wJalrXUtnFEMI/K7MDENG/", "bPxRfiCYEXAMPLEKEY"), ""),
    ("named value", "https://x.org/?a=PASSWORD%3D", "hunter22x", "&b"),
    ("short named password", "MYSQL_PWD=", "hunter22", " mysqldump shop"),
    ("short named password", "Server=db;Pwd=", "Hunter#22", ";"),
    ("docker password", "docker login -u bob -p ", "hunter22", " registry.example.org"),
    ("redis password", "redis-cli -h cache -a ", "hunter22x", " ping"),
    ("database password", "sqlcmd -S db -U sa -P ", "hunter22x", ""),
    ("database password", "mongosh -u app -p ", "hunter22x", ""),
    ("ldap password", "ldapsearch -D cn=a -w ", "hunter22x", " -b dc=x"),
    ("openssl password", "openssl rsa -passin pass:", "hunter22x", " -in k.pem"),
    ("openssl key", "openssl enc -aes256 -k ", "hunter22x", " -in a"),
    ("httpie user", "http -a ", "bob:hunter22x", " GET x"),
    ("htpasswd password", "htpasswd -b users ", "bob hunter22x", ""),
    ("user and password of a call", "requests.get(u, auth=('bob', '", "hunter22x", "'))"),
    ("subscription key", "Ocp-Apim-Subscription-Key: ", HEX, ""),
    ("password that was asked for", "password for bob: ", "hunter22x", ""),
    ("sentry token", "", mix("sntrys", "_eyJpYXQiOjE2OTE0NjE1Njd9_abcdefghijklmnop"), ""),
    ("dynatrace token", "", mix("dt0c01", ".ABCDEFGHIJKLMNOPQRSTUVWX.", "ABCDEFGH" * 8), ""),
    ("vercel token", "", mix("vercel", "_blob_rw_abcdef1234567890_ABCDEFabcdef12345678"), ""),
    ("tailscale key", "", mix("tskey", "-auth-kABCDEF1CNTRL-abcdefghijklmnop1234"), ""),
    ("razorpay key", "", mix("rzp", "_live_abcdEFGH1234ij"), ""),
    ("doppler token", "", mix("dp", ".pt.abcdefghijklmnopqrstuvwxyzABCDEFGHIJ1234"), ""),
    ("langsmith key", "", mix("lsv2", "_pt_", HEX, "_0123456789"), ""),
    ("nvidia key", "", mix("nvapi", "-abcdefghijklmnopqrstuvwxyz0123456789ABCD"), ""),
    ("artifactory key", "", mix("AKC", "p8", "aB3dE5fG7hJ9" * 5), ""),
    ("clojars token", "", mix("CLOJARS", "_", HEX, HEX[:28]), ""),
    ("json web token", "", mix("eyJ", "hbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..abcdefgh.ijklmnop.qrstuvwx"), ""),
    ("spoken password", "your password is ", "hunter22", ""),
    ("identified by", "CREATE USER x IDENTIFIED BY '", "hunter22", "'"),
    ("netrc", "machine x.org login bob password ", "hunter22", ""),
    ("aws access key id", "key ", mix("AKIA", "IOSFODNN7EXAMPLE"), " expired"),
    ("aws session token", "", mix("FwoG", "ZXIvYXdzE" * 8), ""),
    ("google api key", "", mix("AIza", "SyA-1234567890abcdefghijklmnopqrstu"), ""),
    ("google oauth token", "", mix("ya29", ".a0AfH6SMBx1234567890abc"), ""),
    ("google client secret", "", mix("GOCSPX", "-1234567890abcdefghijkl"), ""),
    ("github token", "remote: ", SECRET, ""),
    ("github fine-grained token", "", mix("github", "_pat_11ABCDEFG0123456789_abcdef"), ""),
    ("gitlab token", "", mix("glpat", "-abcdefghij0123456789"), ""),
    ("bitbucket app password", "", mix("ATBB", "abcdefghijABCDEFGHIJ0123"), ""),
    ("atlassian token", "", mix("ATATT3", "xFfGF0abc" * 7), ""),
    ("slack token", "", mix("xoxb", "-123456789012-abcdefABCDEF"), ""),
    ("slack app token", "", mix("xapp", "-1-A01B2C3D4-1234567890123-abcdef0123456789abcdef"), ""),
    ("slack webhook", "POST https://hooks.slack.com/services/", mix("T00000000/B00000000/", "XXXXXXXXXXXX"), ""),
    ("discord webhook", "https://discord.com/api/webhooks/123456/", "abcdefghijklmnopqrstuvwxyz0123456789", ""),
    ("telegram bot token", "bot", mix("123456789", ":AAabcdefghijklmnopqrstuvwxyz0123456"), ""),
    ("openai key", "Incorrect API key provided: ", mix("sk", "-proj-abcdefghijklmnopqrst"), ""),
    ("anthropic key", "", mix("sk", "-ant-api03-abcdefghijklmnopqrst"), ""),
    ("stripe key", "", mix("sk", "_live_abcdefghijklmnop1234"), ""),
    ("stripe webhook secret", "", mix("whsec", "_abcdefghijklmnop12345678"), ""),
    ("hugging face token", "", mix("hf", "_abcdefghijklmnopqrstuvwxyzABCDEF"), ""),
    ("npm token", "", mix("npm", "_abcdefghijklmnopqrstuvwxyz0123456789"), ""),
    ("npm auth line", "//registry.example.org/:_authToken=", "abcd-1234-efgh", ""),
    ("pypi token", "", mix("pypi", "-AgEIcHlwaS5vcmc", "abcdefghij" * 4), ""),
    ("rubygems key", "", mix("rubygems", "_", HEX, "01234567"), ""),
    ("crates.io token", "", mix("cio", "abcdefghijABCDEFGHIJ012345678901"), ""),
    ("docker hub token", "", mix("dckr", "_pat_abcdefghij0123456789"), ""),
    ("digitalocean token", "", mix("dop", "_v1_", HEX, HEX), ""),
    ("sendgrid key", "", mix("SG", ".abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyz0123456789abcdefg"), ""),
    ("mailgun key", "", mix("key", "-", HEX), ""),
    ("twilio key", "", mix("SK", HEX), ""),
    ("shopify token", "", mix("shpat", "_", HEX), ""),
    ("databricks token", "", mix("dapi", HEX), ""),
    ("hashicorp vault token", "", mix("hvs", ".abcdefghijklmnopqrstuvwx"), ""),
    ("grafana token", "", mix("glsa", "_abcdefghijklmnopqrstuvwxyzABCDEF_01234567"), ""),
    ("new relic key", "", mix("NRAK", "-ABCDEFGHIJ0123456789XYZ"), ""),
    ("linear key", "", mix("lin", "_api_abcdefghijklmnopqrstuvwxyzABCDEF"), ""),
    ("notion token", "", mix("ntn", "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789"), ""),
    ("figma token", "", mix("figd", "_abcdefghijklmnopqrstuvwxyzABCDEF"), ""),
    ("planetscale token", "", mix("pscale", "_tkn_abcdefghijklmnopqrstuvwxyz012345"), ""),
    ("supabase key", "", mix("sbp", "_", HEX, "01234567"), ""),
    ("groq key", "", mix("gsk", "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJ01234567"), ""),
    ("replicate token", "", mix("r8", "_abcdefghijklmnopqrstuvwxyzABCDEF"), ""),
    ("xai key", "", mix("xai", "-abcdefghijklmnopqrstuvwxyzABCDEFGHIJ01234567"), ""),
    ("azure storage key", "DefaultEndpointsProtocol=https;AccountKey=", mix("abcdefghij" * 5, "=="), ";"),
    ("azure shared access signature", "https://x.blob.core.windows.net/a?sv=1&sig=", "abcdefghijklmnopqrstu%3D", ""),
    ("signed address", "https://s3.amazonaws.com/x?X-Amz-Signature=", HEX, ""),
    ("key in an address", "https://api.example.org/v1?api_key=", "abcd1234efgh", "&q=1"),
    (
        "json web token",
        "",
        mix("eyJ", "hbGciOiJIUzI1NiJ9.", "eyJ", "zdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"),
        "",
    ),
    ("password hash", "root:", mix("$6$", "rounds=5000$saltsalt$abcdefghijklmnop"), ":19000"),
    ("one-time seed", "otpauth://totp/x?secret=", "JBSWY3DPEHPK3PXP", "&issuer=x"),
    ("what is random", "got ", LONG[:40], " from it"),
]

KEPT = [
    "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    '"integrity": "sha512-' + LONG + '=="',
    "550e8400-e29b-41d4-a716-446655440000",
    "/usr/lib/python3.11/site-packages/charset_normalizer/api.py",
    "ModuleNotFoundError: No module named 'sentence_transformers'",
    "TypeError: __init__() missing 1 required positional argument: 'token'",
    "error: the following arguments are required: --password",
    "Password: required",
    "token: missing",
    "usage: login [--token TOKEN] [--password PASSWORD]",
    "SyntaxError: unexpected token: ';'",
    "Unexpected token '}', at line 3",
    "invalid API key",
    "X-Api-Version: required",
    "curl -H 'X-Auth: $TOKEN' -H 'X-Forwarded-For: localhost'",
    "KeyError: 'api_key'",
    "kubectl get secret my-secret",
    'npm error Missing script: "build"',
    "ssh-keygen -t ed25519",
    "sk-learn, sk-image and hf_hub are packages",
    "https://example.org/path?page=2&sort=name",
    "git@github.com:owner/repository.git",
    "http://127.0.0.1:8000/v1/models",
    "docker run -p 8080:80 nginx",
    "mkdir -p build/output",
    "createElementNamespaceIdentifierFactory",
    "tests/coding/test_secrets.py::test_secrets_are_gone[password-option]",
    "AbstractSingletonProxyFactoryBeanConfiguration2",
    "Wed, 21 Oct 2026 07:28:00 GMT",
    "pkg/module@v0.0.0-20210101000000-9f86d081884c",
    "max_tokens=16000 temperature=0.7",
    "cookie jar is empty",
    "a bearer of news",
    "libstdc++.so.6: version GLIBCXX_3.4.29 not found",
    "basic auth is off",
    "tokenizer=gpt2-medium max_tokens: 100000",
    "secretary: johnson1",
    "cookie: module not found",
    "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=",
    "undefined symbol: _ZNSt6vectorIiSaIiEE9push_backERKi",
    "set OPENAI_API_KEY=your-key",
    "mysql -u root -port",
    "clang -mllvm -debug-pass=Structure",
    "pass:tests/test_a.py pass=100000000 bypass=enabled1",
    "OLDPWD=/home/bob/project1",
    "Password for 'https://bob@git.example.org': ",
    "password for bob: incorrect",
    "docker run -p 8080:80 login:latest",
    "monkey=bananas123 turkey: dinner-time primary_key=customer_id",
    "fatal: password authentication failed for user 'app'",
    "error[E0308]: mismatched types",
]


@pytest.mark.parametrize(("kind", "before", "secret", "behind"), SECRETS, ids=[kind for kind, *_ in SECRETS])
def test_secrets_are_gone(kind, before, secret, behind):
    left = strike_out_secrets(before + secret + behind)
    assert secret not in left, kind
    assert "***" in left
    assert not any(secret[at : at + 8] in left for at in range(len(secret) - 8)), (kind, left)


@pytest.mark.parametrize("text", KEPT)
def test_what_only_looks_like_one_stays(text):
    assert strike_out_secrets(text) == text


def test_the_table_is_covered():
    kinds = {kind for kind, _, _ in load_kinds()}
    tried = {kind for kind, *_ in SECRETS}
    assert len(tried & kinds) >= 60
    assert len(kinds) >= 40


def test_a_value_of_the_environment_is_gone_too(monkeypatch):
    monkeypatch.setenv("SHOP_TOKEN", "orange-battery-staple")
    assert strike_out_secrets("wrong: orange-battery-staple") == "wrong: ***"


def test_no_half_of_a_secret_is_left_where_a_text_is_cut(tell, project):
    """Wherever the cut goes through it, and whatever stands before."""
    for before in range(200, 320, 5):
        words = ("word " * 70)[:before]
        tell(
            "claude-code", payloads.after_claude(f"deploy{before} {words} {SECRET} x", 1, f"error: {words} {SECRET} x")
        )
    text = json.dumps(read_entries(project)).lower()
    assert len(read_entries(project)) > 20
    assert SECRET[:7].lower() not in text


@pytest.mark.parametrize("place", ["command", "output", "both"])
def test_no_secret_reaches_the_disk(tell, project, home, place):
    """Neither the entry, nor the index, nor the log has one, and it is known again without it."""
    command = f"curl -H 'Authorization: token {SECRET}' http://x" if place != "output" else "deploy"
    output = f"error: bad credentials {SECRET}" if place != "command" else "error: bad credentials"
    for _ in range(2):
        tell("claude-code", payloads.after_claude(command, 1, output))
    (entry,) = read_entries(project)
    assert entry["occurrences"] == 2
    for file in [*project.rglob("*"), *home.rglob("*")]:
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file
    if place != "output":
        tell("claude-code", payloads.after_claude(command + " -v", 0, ""))
        assert tell("claude-code", payloads.BEFORE["claude-code"](command), NOW + 9)
    assert SECRET not in json.dumps(read_entries(project))
