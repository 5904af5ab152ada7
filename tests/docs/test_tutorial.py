"""The tutorial, as a newcomer types it: one folder, every block in order, on the real simulator."""

import shlex
import sys

import pytest

from rsso_dspy.cli import main
from tests.cli.conftest import at_hand  # noqa: F401
from tests.docs.blocks import Block, blocks, commands, differs, page

TUTORIAL = [block for block in blocks(page("TUTORIAL.md")) if block.language]


@pytest.mark.usefixtures("at_hand")
def test_every_block_does_what_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    names: dict = {}
    printed = ""
    for block in TUTORIAL:
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        elif block.language == "python":
            exec(block.text, names)
            printed = capsys.readouterr().out
        elif block.language == "text":
            assert not differs(block.text, printed), printed
        else:
            assert block.language == "console", f"nobody knows what to do with a block of {block.language}"
            _type(block, monkeypatch, capsys)


def _type(block: Block, monkeypatch, capsys) -> None:
    for line, shown in commands(block):
        program, *words = shlex.split(line)
        assert program == "rsso-dspy"
        monkeypatch.setattr(sys, "argv", [program, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        printed = said.err + said.out
        assert not ended.value.code, f"{line}\n{printed}"
        missing = differs(shown, printed)
        assert not missing, f"{line}\nsays nothing like\n{missing}\nbut\n{printed}"
