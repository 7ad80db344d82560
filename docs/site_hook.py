"""What the site takes from elsewhere: its version, its pages, and the address of the repository.

mkdocs calls the functions whose names begin with `on_`.
"""
# ruff: noqa: INP001 -- read by mkdocs, and no package

from __future__ import annotations

import re
import runpy
import tomllib
from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\]\(([\w/.-]+\.md)(?:#[\w-]+)?\)")
_FILE = re.compile(r"\[([^\[\]]+)\]\((?:\.\./)+([^)\s#]+)(#[^)\s]+)?\)")
_REFERENCE = re.compile(r"^<!-- (::: .+?) -->$", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the title, and the pages by the headings of docs/README.md."""
    config.site_name = f"{config.site_name} {version()}"
    config.nav = navigation((ROOT / "docs" / "README.md").read_text("utf-8"))
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository lead there, and write the reference of Python."""
    del config, files
    depth = page.file.src_uri.count("/") + 1
    return _REFERENCE.sub(r"\1", with_links(markdown, "../" * depth, repository()))


def navigation(index: str) -> list[str | dict[str, list[str]]]:
    """Return the pages of an index below its headings; each where it is named first."""
    nav: list[str | dict[str, list[str]]] = ["README.md"]
    seen: set[str] = set()
    for section in index.split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        pages = [one for one in dict.fromkeys(_LINK.findall(text)) if one not in seen]
        seen.update(pages)
        if pages:
            nav.append({heading: pages})
    return nav


def with_links(markdown: str, up: str, repository: str) -> str:
    """Return a page whose links to files outside of docs/ lead to the repository.

    Args:
        markdown: The page.
        up: The way from it to the top folder, such as `../../`.
        repository: As GitHub has it; "" leaves the words of the link alone.
    """

    def absolute(found: re.Match[str]) -> str:
        words, path, anchor = found.groups()
        if not found[0].partition("](")[2].startswith(up):
            return found[0]
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return (
            f"[{words}]({repository}/{kind}/v{version()}/{path}{anchor or ''})"
            if repository
            else words
        )

    return _FILE.sub(absolute, markdown)


@cache
def version() -> str:
    """Return the version of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


@cache
def repository() -> str:
    """Return the address of the repository as the package names it, "" if it is not known."""
    build = runpy.run_path(str(ROOT / "hatch_build.py"))
    return str(build["repository_of"](ROOT))
