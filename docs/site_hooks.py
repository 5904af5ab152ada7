"""The site begins with the README, and pages link to source files by their place in the repository. The site has no
repository beside it, so it carries a copy of every file that is linked to, as text, and the links go there."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

LINK = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")
"""A link out of docs/."""
README = re.compile(r"\]\((?!\w+:|#)(docs/)?([^)\s]+)\)")
"""A link of the README to a file."""


def on_files(files: Any, config: Any) -> Any:
    """Add the README, and a copy of every linked source file."""
    root = Path(config.docs_dir).parent
    if (root / "README.md").is_file():
        first = README.sub(
            lambda found: f"]({'' if found[1] else '../'}{found[2]})", (root / "README.md").read_text("utf-8")
        )
        files.append(File.generated(config, "index.md", content=first))
    pages = [file.content_string for file in files.documentation_pages()]
    for path in sorted({found[1] for page in pages for found in LINK.finditer(page)} - {"README.md"}):
        if (root / path).is_file():
            files.append(File.generated(config, f"source/{path}.txt", abs_src_path=str(root / path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to source files as links to their copies. A link to nothing stays, and the build refuses it."""
    markdown = markdown.replace("](../README.md", "](index.md")
    return LINK.sub(lambda found: f"](source/{found[1]}.txt)", markdown)


def on_post_build(config: Any) -> None:
    """The site is a folder of files: without an address of its own, the page that a server shows for what is not there
    would look for its parts on other hosts."""
    (Path(config.site_dir) / "404.html").unlink(missing_ok=True)
