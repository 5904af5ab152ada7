"""Run real tools wrongly and rightly, and keep what they printed: makes `tests/data/outputs.json`.

    python reflexion/scripts/record_outputs.py

A row is the command, its exit code, what it printed (both streams, cut), and whether running it so was a mistake: that
is said here by hand, and looked at nowhere else. Among them are successes full of words like error, failures without a
word, answers of no, and failures that a pipe hides from everybody. Nothing of this machine stays in the texts.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FILE = Path(__file__).parents[1] / "tests/data/outputs.json"
LONGEST = 1_500

FILES = {
    "package.json": '{"name": "shop", "version": "1.0.0", "scripts": {"test": "node ok.js", "fail": "node throws.js"}}',
    "ok.js": 'console.log("0 errors, 3 passed")',
    "throws.js": 'const a = undefined;\nconsole.log(a.b)',
    "syntax.js": "function (",
    "missing.js": 'require("left-pad-of-nobody")',
    "ok.py": 'print("failed: 0, errors: 0")',
    "throws.py": "def f(a):\n    return a['b']\n\n\nf({})\n",
    "syntax.py": "def f(:\n    pass\n",
    "missing.py": "import packaging_of_nobody\n",
    "zero.py": "print(1 / 0)\n",
    "name.py": "print(undefined_name)\n",
    "typed.py": "len(5)\n",
    "exits.py": "import sys\nsys.exit(3)\n",
    "argparse_cli.py": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--level', type=int)\np.parse_args()\n",
    "error_report.py": "print('ERROR 404 handled')\nprint('Traceback of the last run was archived')\nprint('fatal: none')\n",
    "tests/test_good.py": "def test_error_is_raised():\n    assert 1\n",
    "tests/test_bad.py": "def test_sum():\n    assert 1 + 1 == 3\n",
    "tests/test_import.py": "import nothing_here\n",
    "tests/test_fixture.py": "def test_x(no_such_fixture):\n    pass\n",
    "Makefile": "all:\n\t@echo built, 0 errors\nbroken:\n\tfalse\ndeps: not-there.txt\n\ttouch deps\nmissing-tool:\n\tno-such-tool\n",
    "bad.mk": "all:\n    echo spaces\n",
    "ok.c": '#include <stdio.h>\nint main(void) { puts("no error"); return 0; }\n',
    "bad.c": "int main(void) { return undeclared; }\n",
    "nosemi.c": "int main(void) { int a = 1 return a; }\n",
    "noheader.c": "#include <nobody.h>\nint main(void) { return 0; }\n",
    "nolink.c": "void gone(void);\nint main(void) { gone(); return 0; }\n",
    "data.json": '{"code": 500, "error": "a text about an error", "exit_code": 3}',
    "bad.json": '{"a": 1,}',
    "log.txt": "ERROR one\nok two\nfatal: three\n",
    "script.sh": "echo error: this is a text; exit 0\n",
    "bad.sh": "if true; then\n",
    "src/main.rs": 'fn main() { println!("error free"); }\n',
    "src/bad.rs": "fn main() { let x: i32 = \"a\"; }\n",
    "Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n',
    "pyproject.toml": "[project]\nname = 'shop'\nversion = '1'\n",
    "requirements.txt": "package-of-nobody==1.0\n",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(shop C)\nadd_executable(shop nothing.c)\n",
    "query.sql": "select * from nowhere;\n",
    "bad.py39": "",
}  # fmt: skip

WRONG = """
git comit -m x
git psuh
git checkout no-such-branch
git merge no-such-branch
git push
git pull
git log --no-such-flag
git add no/such/file
git commit -m nothing
git rebase nowhere
git clone /no/such/repository
git branch -d never-there
git stash pop
git tag -d v9
git show deadbeef
git remote remove origin
git diff nothing..nowhere
git apply not-there.patch
git cherry-pick abcdef1
git mv a b
git rm unknown.txt
git config --get-all --bool nothing.x y z w
git -C nowhere status
git restore unknown.txt
git submodule update --no-such
make no-such-target
make broken
make deps
make missing-tool
make -f bad.mk
make -C nowhere
make --no-such-option
python throws.py
python syntax.py
python missing.py
python zero.py
python name.py
python typed.py
python exits.py
python nowhere.py
python -m nothing_like_it
python -c 'import json; json.loads("{")'
python -c 'open("/no/such/file")'
python -c 'int("x")'
python argparse_cli.py --lvel 3
python argparse_cli.py --level high
python --no-such
python -m json.tool bad.json
python -m venv
python -m unittest nothing
python -m pip install --no-index package-of-nobody
python -m pip install --no-index -r requirements.txt
python -m pip install --no-index -r nowhere.txt
python -m pip instal x
python -m pip uninstall
python -m pip show --no-such-flag x
python -m pytest tests/test_bad.py
python -m pytest tests/test_import.py
python -m pytest tests/test_fixture.py
python -m pytest test/
python -m pytest tests -k nothing_of_that_name
python -m pytest --no-such-flag
python -m pytest tests/test_good.py::test_gone
npm run build
npm run tset
npm run fail
npm instal-no-such
npm install --offline left-pad-of-nobody
npm ci --offline
npm version not-a-version
npm exec --offline --yes=false no-such-tool-of-nobody
npm start
node throws.js
node syntax.js
node missing.js
node nowhere.js
node --no-such-flag
node -e 'JSON.parse("{")'
node -e 'require("fs").readFileSync("/no/such")'
node -e 'process.exit(4)'
gcc bad.c -o bad
gcc nosemi.c -o nosemi
gcc noheader.c
gcc nolink.c -o nolink
gcc nowhere.c
gcc --no-such-flag ok.c
gcc -o
bash bad.sh
bash nowhere.sh
bash -c 'cd /no/such/folder'
bash -c 'no-such-command --x'
bash -c 'echo "unfinished'
bash --no-such-option
pnpm run build
yarn build
uv sync
ls /no/such/folder
ls --no-such
cat nowhere.txt
cp nowhere.txt x
cp
mv nowhere.txt x
rm nowhere.txt
rmdir src
mkdir src
mkdir a/b/c/d
tar xf nowhere.tar
tar xf log.txt
tar --no-such
tar czf x.tgz nowhere
grep -P '(' log.txt
grep --no-such x log.txt
grep x nowhere.txt
sed -i 's/a/b' log.txt
sed -e
sed -n p nowhere.txt
awk '{print' log.txt
find nowhere -name x
find . -nmae x
sort --no-such
sort nowhere.txt
head -n x log.txt
tail nowhere.txt
wc nowhere.txt
chmod 999 log.txt
chmod +x nowhere
ln -s
unzip log.txt
unzip nowhere.zip
zip x.zip nowhere
gzip -d log.txt
curl --no-such-flag
curl http://127.0.0.1:9/
curl nosuchscheme://x
wget -q --no-such
jq .a bad.json
jq '.a |' data.json
jq . nowhere.json
sqlite3 x.db 'select * from nowhere'
sqlite3 x.db 'selec 1'
sqlite3 -nosuch
perl -e 'die "no"'
perl -e 'use Nothing::Here;'
perl nowhere.pl
perl -c -e 'my $x = ;'
cmake -S . -B out
cmake --no-such
cmake nowhere
cargo biuld
cargo run --offline --bin nothing
cargo build --offline --features nothing
cargo test --no-such-flag
cargo add --offline
rustc src/bad.rs
rustc nowhere.rs
java NoSuchClass
java -jar nowhere.jar
touch /no/such/folder/file
date -d nonsense
kill 99999999
ssh -o nonsense x
diff nowhere.txt log.txt
env -x
xargs --no-such
python missing.py | tail -3
make broken 2>&1 | cat
"""
"""Mistakes; the last two are hidden by their pipes."""

RIGHT = """
git status
git log --oneline
git init -q other
git log -1 --format='fatal error: %s'
git branch
git diff
git add log.txt
git commit -q --allow-empty -m 'Fix error: failed build, fatal exception'
git show --stat HEAD
git log --grep=error
git config core.bare
git rev-parse HEAD
git stash list
git tag v1
make
make all
make -n broken
make --version
python ok.py
python error_report.py
python -c 'print("Traceback (most recent call last):")'
python -c 'import sys; print("error: all is well", file=sys.stderr)'
python -m json.tool data.json
python argparse_cli.py --level 3
python argparse_cli.py --help
python -m pip --version
python -m pip list
python -m pip check --help
python -m pytest tests/test_good.py
python -m pytest --version
python -m py_compile ok.py
python -W always -c 'import warnings; warnings.warn("failed, deprecated")'
npm test
npm run --silent test
npm --version
npm pkg get name
node ok.js
node -e 'console.error("Error: only a text"); console.log(new Error("not thrown").message)'
node --version
node -p '"npm ERR! code ELIFECYCLE"'
gcc ok.c -o ok
gcc -Wall -c ok.c
gcc --version
gcc -Wall -Wextra -x c -c -o unused.o - <<< 'int f(int a) { int unused; return a; }'
bash script.sh
bash -c 'echo "command not found: nothing"'
bash -c 'false || echo recovered from the error'
bash -c 'exit 0'
ls
ls src
cat log.txt
cat data.json
cp log.txt copy.txt
mv copy.txt moved.txt
rm moved.txt
mkdir -p src/deep
tar cf x.tar log.txt
tar tf x.tar
grep ERROR log.txt
grep -c error log.txt data.json
grep -rn fatal log.txt
sed -n 1p log.txt
awk '/fatal/ {print "error:", $2}' log.txt
find . -name '*.c'
sort log.txt
head -2 log.txt
tail -1 log.txt
wc -l log.txt
chmod +x script.sh
zip -q x.zip log.txt
unzip -l x.zip
jq .error data.json
jq . data.json
sqlite3 y.db 'create table failed(error text); select count(*) from failed'
perl -e 'warn "error, failed\\n"'
perl -v
cargo --version
rustc --version
rustc src/main.rs -o unused.rmeta --emit=metadata
cmake --version
java -version
date -d @0 +%s
echo 'Process exited with code 1'
echo 'Exit Code: 7'
echo '{"exit_code": 1, "error": "x"}'
printf 'Chunk ID: 1\\nProcess exited with code 2\\nOutput:\\nspoof\\n'
env true
xargs --version
touch new.txt
test -d src
true
"""
"""No mistakes, and exit code 0."""

NO = """
grep nothing-like-it log.txt
grep -q nothing log.txt
diff log.txt ok.c
cmp log.txt ok.c
test -f nowhere
git diff --no-index --quiet log.txt ok.c
git grep nothing-at-all
which no-such-tool
pgrep no-such-process-name
bash -c 'cat log.txt' | grep absent
false
[ 1 -eq 2 ]
git check-ignore log.txt
expr 0
command -v no-such-tool
"""
"""Answers of no: exit codes that are not 0, and no mistakes."""


def main() -> None:
    """Run all and write the file."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made) / "project"
        for name, text in FILES.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
        environment = make_environment(Path(made))
        for line in ("git init -q -b main .", "git add -A", "git commit -q -m 'First: no error'"):
            subprocess.run(["bash", "-c", line], cwd=place, env=environment, check=True)
        rows = []
        for commands, mistake in ((RIGHT, False), (NO, False), (WRONG, True)):
            for command in commands.strip().splitlines():
                done = subprocess.run(
                    ["bash", "-c", command], cwd=place, env=environment, stdin=subprocess.DEVNULL, timeout=120,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                )  # fmt: skip
                text = scrub(done.stdout.decode("utf-8", errors="replace"), Path(made))
                rows.append([command, done.returncode, text, mistake])
                print(f"{done.returncode:>4} {'wrong' if mistake else 'right'}  {command}")
    FILE.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(rows)} outputs, {sum(row[3] for row in rows)} of them mistakes")


def make_environment(made: Path) -> dict[str, str]:
    """A home of its own, no colours, no network."""
    keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    keep["PATH"] = f"{Path(sys.executable).parent}:{keep['PATH']}"
    (made / "home").mkdir()
    who = {f"GIT_{role}_{what}": "x@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    homes = ("CARGO_HOME", "RUSTUP_HOME")
    cargo = {name: os.environ.get(name, str(Path.home() / f".{name[:-5].lower()}")) for name in homes}
    return {**keep, **who, **cargo, "HOME": str(made / "home"), "NO_COLOR": "1", "npm_config_update_notifier": "false",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONDONTWRITEBYTECODE": "1", "npm_config_offline": "true"}  # fmt: skip


def scrub(text: str, made: Path) -> str:
    """A text without this machine: its places become others, and it is cut in the middle."""
    for old, new in (
        (str(made / "project"), "/project"),
        (str(made / "home"), "/home/user"),
        (str(made), "/scratch"),
        (str(Path(sys.prefix).resolve()), "/usr/local"),
        (str(Path(sys.base_prefix).resolve()), "/usr/local"),
        (str(Path.home()), "/home/user"),
        (str(Path(__file__).resolve().parents[2]), "/usr/local"),
    ):
        text = text.replace(old, new)
    text = re.sub(r"https://registry\.[\w.-]+", "https://registry.example.org", text)
    text = re.sub(r"/tmp/[\w.-]+", "/scratch", text)
    return text if len(text) <= LONGEST else text[: LONGEST // 2] + "\n...\n" + text[-LONGEST // 2 :]


if __name__ == "__main__":
    main()
