"""The rules of the repositories of `house-rules` as memory files: examples/house_rules/NAME.md.

python scripts/write_house_rules.py             # writes them
python scripts/write_house_rules.py --check     # compares with what is shipped; exits with 1 where they differ
"""

import argparse
from pathlib import Path

from rsso_dspy.environments.house_rules.markdown import format_rules
from rsso_dspy.environments.house_rules.repositories import NAMES, draw_repository

FOLDER = Path(__file__).parent.parent / "examples/house_rules"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()

    different = []
    FOLDER.mkdir(exist_ok=True)
    for name in NAMES:
        file = FOLDER / f"{name}.md"
        text = format_rules(draw_repository(name))
        if not options.check:
            file.write_text(text, encoding="utf-8")
        elif not file.is_file() or file.read_text(encoding="utf-8") != text:
            different.append(file.name)
    if different:
        raise SystemExit(f"other rules than are shipped: {', '.join(different)}")


if __name__ == "__main__":
    main()
