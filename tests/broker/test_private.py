"""Files that nobody else on the machine can read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from signoff.broker.server.private import private_folder, private_text
from signoff.core.base.errors import ConfigError

LOOK = """
import os, sys
os.setuid(65534)
for path in sys.argv[1:]:
    try:
        print(os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError:
        print("closed")
"""
"""A neighbour, who looks at files and folders."""


def mode(path: Path) -> int:
    """Return the rights of a file or folder."""
    return path.stat().st_mode & 0o777


def test_a_folder_is_made_closed(tmp_path: Path) -> None:
    """Whatever the umask of this process is."""
    before = os.umask(0)
    try:
        assert mode(private_folder(tmp_path / "state")) == 0o700
    finally:
        os.umask(before)


def test_a_folder_that_was_left_open_is_closed_with_all_that_is_in_it(tmp_path: Path) -> None:
    """Its owner can do with it what they could; what a link leads to is left alone."""
    folder, outside = tmp_path / "state", tmp_path / "outside"
    (folder / "mail" / "new").mkdir(parents=True)
    files = [folder / "sessions.db", folder / "mail" / "new" / "1", folder / "run.sh", outside]
    for file, rights in zip(files, (0o644, 0o664, 0o755, 0o644), strict=True):
        file.write_text("x")
        file.chmod(rights)
    (folder / "link").symlink_to(outside)
    folder.chmod(0o755)
    private_folder(folder)
    assert [mode(one) for one in files] == [0o600, 0o600, 0o700, 0o644]
    assert [mode(one) for one in (folder, folder / "mail", folder / "mail/new")] == [0o700] * 3


def test_a_text_replaces_another(tmp_path: Path) -> None:
    """Nobody else can read it, also where the one before could be read."""
    file = tmp_path / "url"
    file.write_text("old")
    file.chmod(0o644)
    (tmp_path / "url.part").write_text("left behind")
    private_text(file, "new")
    assert (file.read_text(), mode(file)) == ("new", 0o600)
    assert [one.name for one in tmp_path.iterdir()] == ["url"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """The message names it."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="file/state cannot be made"):
        private_folder(tmp_path / "file" / "state")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A neighbour who made it first could put their own files into it."""
    folder = private_folder(tmp_path / "state")
    os.chown(folder, 65534, 65534)
    private_folder(folder)  # root may
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigError, match="another user"):
        private_folder(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_neighbour_sees_nothing() -> None:
    """Tried by another user, in a place that everybody can enter."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        folder = private_folder(Path(name) / ".signoff")
        private_text(folder / "url", "secret")
        command = [sys.executable, "-c", LOOK, str(folder), str(folder / "url"), name]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["closed", "closed", "['.signoff']"]
