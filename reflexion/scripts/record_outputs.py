"""Run real tools wrongly and rightly, and keep what they printed: makes `tests/data/outputs.json` anew.

    python reflexion/scripts/record_outputs.py

A row is the command, its exit code, what it printed (both streams, cut), and whether running it so was a mistake: that
is said there by hand, and stays, as the command does. A new row begins as `["command", 0, "", true]`. Among them are successes full of words like error, failures without a
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
        for command, _, _, mistake in json.loads(FILE.read_text(encoding="utf-8")):
            done = subprocess.run(
                ["bash", "-c", command], cwd=place, env=environment, stdin=subprocess.DEVNULL, timeout=120,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            text = scrub(done.stdout.decode("utf-8", errors="replace"), Path(made))
            rows.append([command, done.returncode, text, mistake])
            print(f"{done.returncode:>4} {'wrong' if mistake else 'right'}  {command}")
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
