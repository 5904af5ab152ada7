"""What is kept of commands, and what is struck out of what they print."""

from pathlib import Path

import payloads
import pytest
from conftest import NOW, read_entries
from payloads import SECRET
from reflexion.secrets import clean_command, strike_text

WORD = "hunter22x"
"""Stands for X in the commands: no list of shapes knows it."""

COMMANDS = """
mysqladmin -u root password X|mysqladmin -u root -pX status|mysql -u root -pX shop|mysql --password=X|mysqldump -pX db
mysql -u root --password X shop|mariadb -pX|psql postgres://app:X@db/shop|PGPASSWORD=X psql -h db|psql "password=X host=db"
echo X | sudo -S apt-get install jq|echo "X" | passwd --stdin bob|printf 'X\\n' | sudo -S ls|sudo -S ls <<< X|yes X | passwd bob
kubectl create secret generic s --from-literal=pw=X|kubectl --token X get pods|kubectl --token=X get pods|kubectl config set-credentials bob --password=X|oc login -u bob -p X
vault login X|vault login -method=userpass username=bob password=X|vault kv put secret/db pw=X|VAULT_TOKEN=X vault read a|vault write auth/approle/login secret_id=X
gh secret set NAME --body X|gh auth login --with-token <<< X|echo X | gh secret set NAME|GH_TOKEN=X gh pr list|git -c http.extraHeader="Authorization: Basic X" push
zip -P X a.zip a|zip --password X a.zip a|unzip -P X a.zip|7z a -pX a.7z a|7z x a.7z -pX|unrar x -pX a.rar|rar a -hpX a.rar a|gpg --passphrase X -c a|gpg --batch --passphrase=X a
az login -u me -p X|az login --service-principal -u me --password X|az keyvault secret set --name a --value X|aws configure set aws_secret_access_key X|AWS_SECRET_ACCESS_KEY=X aws s3 ls|gcloud auth login --cred-file X
sqlplus u/X@db|sqlplus -s u/X|sqlcmd -S db -U sa -P X|sqlcmd -S db -U sa -PX|bcp db out a -U sa -P X|isql db sa X|impdp u/X|mongosh -u app -p X|mongosh mongodb://app:X@db|redis-cli -a X ping|redis-cli --pass X|AUTH=X redis-cli
lftp -u u,X host|lftp -e "user u X" host|ncftpput -u bob -p X host . a|curl -u bob:X http://h|curl --user bob:X http://h|curl -ubob:X http://h|curl --proxy-user u:X http://h|curl -x http://u:X@proxy http://h|wget --password=X http://h|wget --http-password X http://h
curl -b sid=X http://h|curl --cookie "sid=X" http://h|curl -H "Authorization: Bearer X" http://h|curl -H "X-Api-Key: X" http://h|curl -d "pw=X" http://h|curl --data-raw '{"pw": "X"}' http://h|curl http://h/?key=X|http -a bob:X http://h|http http://h "Authorization:Token X"
deploy --pw X|deploy --pw=X|deploy -p X|deploy --token X|deploy --api-key=X|deploy X|deploy "X|./run.sh X|node run.js --secret X|python run.py X
export DATABASE_PW=X|export DATABASE_PW="X"|DATABASE_PW=X make all|env PW=X make all|set PW X|declare -x PW=X|PW=X; make all|make all PW=X
docker login -u bob -p X|docker run -e PW=X nginx|docker run --env PW=X nginx|docker build --build-arg TOKEN=X .|echo X | docker login --password-stdin|helm install a ./c --set pw=X|terraform apply -var db_pw=X|terraform apply -var=db_pw=X|TF_VAR_pw=X terraform plan|ansible-playbook a.yml -e "pw=X"
sshpass -p X ssh h|sshpass -pX ssh h|ssh-keygen -N X -f k|ssh-keygen -P X -p -f k|openssl rsa -passin pass:X -in k|openssl enc -k X -in a|openssl enc -kX -in a|openssl pkcs12 -export -passout pass:X|keytool -storepass X -list|keytool -storepass:env X|htpasswd -b users bob X|htpasswd -nb bob X|ldapsearch -D cn=a -w X|ldapsearch -D cn=a -wX|smbclient //h/s -U bob%X|smbclient //h/s X -U bob|xfreerdp /u:bob /p:X /v:h|net use z: //h/s X /user:bob|mount -t cifs -o username=bob,password=X //h/s /mnt
npm config set //r/:_authToken X|npm login --auth=X|npm publish --otp X|pip install --index-url https://u:X@h/simple a|twine upload -u bob -p X dist/a|heroku config:set PW=X|fly secrets set PW=X|vercel env add PW X|firebase login:ci --token X|rclone config create a sftp pass=X|restic -p X backup|borg create --passphrase X|cryptsetup open d n <<< X|nmcli dev wifi connect home password X|wpa_passphrase home X|snmpwalk -v3 -A X h|ipmitool -U a -P X power on|expect -c 'send "X\\n"'|python -c "login('X')"|node -e 'login("X")'|sh -c "mysql -pX"|ruby -e "p 'X'"|perl -e "print 'X'"
cat > a.env <<EOF
PW=X
EOF
git commit -m "pw is X"|git clone https://X@h/a.git|git remote add o https://bob:X@h/a|svn co --password X http://h|hg push https://bob:X@h|chpasswd <<< "bob:X"|usermod -p X bob|useradd -p X bob|su -c "X"|runuser -u bob X|mail -S smtp-auth-password=X bob|swaks --auth-password X|ffmpeg -i rtsp://u:X@h/a|rsync --password-file=X a h:|java -Dpw=X -jar a.jar|java -jar a.jar X|go run . X|cargo login X|cargo run -- X|dotnet user-secrets set Pw X
"""
KEPT = [
    ("cd tests && python -m pytest -q test_secrets.py 2>&1 | tail -5", "", None),
    ("npm run build:prod --if-present", "", None),
    ("git -C tests status --short", "", None),
    ("git push --set-upstream origin feature", "fatal: use git push --set-upstream origin feature", None),
    ("pip install flask", "No module named 'flask'", None),
    ("pip install flask", "", "pip install ***"),
    ("docker login -p flask", "flask", "docker login -p ***"),
    ("pytest tests/test_secrets.py::test_x -k slow", "", "pytest tests/test_secrets.py::test_x -k ***"),
    ("FOO=1 sudo -u bob make all", "", "FOO=*** sudo -u *** make all"),
    (
        "chmod +x pyproject.toml && ./pyproject.toml --port=8080",
        "",
        "chmod +x pyproject.toml && ./pyproject.toml --port=***",
    ),
    ("grep -rn needle tests | head -3; ls -la > /dev/null", "", "grep -rn *** tests | head -3; ls -la > /dev/null"),
]


def list_commands() -> list[str]:
    text = COMMANDS.strip().replace("cat > a.env <<EOF\nPW=X\nEOF\n", "")
    lines = [command for line in text.split("\n") for command in line.replace(" | ", "\0").split("|")]
    return [line.replace("\0", " | ").replace("X", WORD) for line in lines] + [f"cat > a.env <<EOF\nPW={WORD}\nEOF"]


def test_the_table_is_long_enough():
    assert len(list_commands()) >= 99 + 50


@pytest.mark.parametrize("command", list_commands())
def test_no_value_of_a_command_is_kept(command, tmp_path):
    (tmp_path / "k").touch()
    kept = clean_command(command, (str(tmp_path),), f"error: {command.split()[0]} failed")
    assert WORD not in kept
    assert "***" in kept or kept == command


@pytest.mark.parametrize(("command", "error", "kept"), KEPT)
def test_what_says_what_was_done_stays(command, error, kept):
    root = str(Path(__file__).parents[1])
    assert clean_command(command, (root, f"{root}/tests"), error) == (kept or command)


def mix(*parts: str) -> str:
    """A secret put together here, so that no scanner finds it in this file."""
    return "".join(parts)


LONG = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7d"
SECRETS = [
    ("-----BEGIN RSA PRIVATE KEY-----\n", "MIIEowIBAAKCAQEA7bq", "\n-----END RSA PRIVATE KEY-----"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\n", "b3BlbnNzaC1rZXktdjE", ""),
    ("> Authorization: Basic ", "dXNlcjpodW50ZXIy", ""),
    ("bearer ", "abcdef0123456789abcdef", "'"),
    ("Set-Cookie: ", "sid=9f8d7c6b5a4e", ""),
    ("fatal: unable to access 'https://", "bob:hunter22", "@git.example.org/x.git/'"),
    ("https://", "a1b2c3d4e5f6a7b8c9", "@git.example.org/x"),
    ("DB_PASSWORD=", "hunter22", ""),
    ('"client_secret": "', "Zx9-hunter", '"'),
    ("aws_secret_access_key = ", mix("wJalrXUtnFEMI/K7MDENG/", "bPxRfiCYEXAMPLEKEY"), ""),
    ("your password is ", "hunter22", ""),
    ("root:", mix("$6$", "rounds=5000$saltsalt$abcdefghijklmnop"), ":19000"),
    ("remote: ", SECRET, ""),
    ("key ", mix("AKIA", "IOSFODNN7EXAMPLE"), " expired"),
    ("", mix("AIza", "SyA-1234567890abcdefghijklmnopqrstu"), ""),
    ("", mix("xoxb", "-123456789012-abcdefABCDEF"), ""),
    ("Incorrect API key provided: ", mix("sk", "-proj-abcdefghijklmnopqrst"), ""),
    ("", mix("glpat", "-abcdefghij0123456789"), ""),
    ("", mix("npm", "_abcdefghijklmnopqrstuvwxyz0123456789"), ""),
    ("", mix("hf", "_abcdefghijklmnopqrstuvwxyzABCDEF"), ""),
    ("", mix("eyJ", "hbGciOiJIUzI1NiJ9.", "eyJ", "zdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"), ""),
    ("got ", LONG, " from it"),
]
PLAIN = [
    "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    '"integrity": "sha512-' + LONG + '=="',
    "550e8400-e29b-41d4-a716-446655440000",
    "/usr/lib/python3.11/site-packages/charset_normalizer/api.py",
    "TypeError: __init__() missing 1 required positional argument: 'token'",
    "error: the following arguments are required: --password",
    "Password: required",
    "token: missing",
    "SyntaxError: unexpected token: ';'",
    "KeyError: 'api_key'",
    'npm error Missing script: "build"',
    "git@github.com:owner/repository.git",
    "http://127.0.0.1:8000/v1/models",
    "createElementNamespaceIdentifierFactory",
    "tests/coding/test_secrets.py::test_secrets_are_gone[password-option]",
    "AbstractSingletonProxyFactoryBeanConfiguration2",
    "undefined symbol: _ZNSt6vectorIiSaIiEE9push_backERKi",
    "fatal: password authentication failed for user 'app'",
    "error[E0308]: mismatched types",
]


@pytest.mark.parametrize(("before", "secret", "behind"), SECRETS)
def test_tokens_in_free_text_are_gone(before, secret, behind):
    left = strike_text(before + secret + behind)
    assert "***" in left
    assert not any(secret[at : at + 8] in left for at in range(len(secret) - 7)), left


@pytest.mark.parametrize("text", PLAIN)
def test_what_only_looks_like_one_stays(text):
    assert strike_text(text) == text


def test_what_a_command_gave_and_the_environment_has_is_gone_from_what_it_printed(monkeypatch):
    monkeypatch.setenv("SHOP_TOKEN", "orange-battery-staple")
    said = "denied for orange-battery-staple and hunter22x"
    assert strike_text(said, f"mysql -u root -p{WORD}") == "denied for *** and ***"
    assert strike_text(said, f"mysql -u root --password {WORD}") == "denied for *** and ***"


@pytest.mark.parametrize("place", ["command", "output", "both"])
@pytest.mark.parametrize("secret", [SECRET, WORD])
def test_no_secret_reaches_the_disk(tell, project, home, place, secret):
    """Neither the entry, nor the index, nor the session, nor the log has one, and the command is known again."""
    if secret == WORD and place == "output":
        pytest.skip("free text: a plain word looks like nothing")
    command = f"deploy --all --quick --token {secret}" if place != "output" else "deploy --all"
    output = f"error: bad credentials {secret}" if place != "command" else "error: bad credentials"
    for _ in range(2):
        tell("claude-code", payloads.after_claude(command, 1, output))
    (entry,) = read_entries(project)
    assert entry["occurrences"] == 2
    for file in [*project.rglob("*"), *home.rglob("*")]:
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file
    if place != "output":
        tell("claude-code", payloads.after_claude(f"sudo {command}", 0, ""))
        assert read_entries(project)[0]["resolution"] == "use `sudo deploy --all --quick --token ***`"
        assert tell("claude-code", {**payloads.BEFORE["claude-code"](command), "session_id": "z"}, NOW + 9)
