"""What the package says of the project, from where it is built: its addresses.

A package index shows the README without the files beside it, so its links have to name the
repository. The build knows which one that is: SIGNOFF_REPOSITORY_URL, or the remote `origin` of
the clone. Where neither is there, links stay as they are.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r'(\]\(|srcset="|src=")(?!https?:|mailto:|#)([^)"\s]+)')
_PICTURES = (".png", ".webp", ".svg")


class Addresses(MetadataHookInterface):
    """Writes the README with absolute links, and the project's URLs."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set what pyproject.toml calls dynamic."""
        root = Path(self.root)
        repository = repository_of(root)
        text = (root / "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_links(text, repository, f"v{metadata['version']}"),
        }
        metadata["urls"] = urls_of(repository)


def repository_of(root: Path) -> str:
    """Return the address of the repository that a folder is a clone of, "" where it is none."""
    if given := os.environ.get("SIGNOFF_REPOSITORY_URL"):
        return given.removesuffix("/")
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(root), "remote", "get-url", "origin"],  # noqa: S607
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    host, _, path = re.sub(r"^(https://|ssh://)?([^@/]+@)?", "", done.stdout.strip()).partition(
        ":" if done.stdout.startswith("git@") else "/"
    )
    return f"https://{host}/{path.removesuffix('.git')}" if path and "." in host else ""


def with_links(text: str, repository: str, tag: str) -> str:
    """Return Markdown whose links to files lead to a repository.

    Args:
        text: With links that are relative to the top folder.
        repository: As GitHub has it; "" leaves the links alone.
        tag: Of the version whose files are meant.
    """
    if not repository:
        return text

    def absolute(found: re.Match[str]) -> str:
        kind = "raw" if found[2].endswith(_PICTURES) else "blob"
        return f"{found[1]}{repository}/{kind}/{tag}/{found[2]}"

    return _LINK.sub(absolute, text)


def urls_of(repository: str) -> dict[str, str]:
    """Return the Project-URLs, none without a repository."""
    if not repository:
        return {}
    return {
        "Source": repository,
        "Documentation": f"{repository}/blob/main/docs/README.md",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
        "Security": f"{repository}/security/policy",
    }
