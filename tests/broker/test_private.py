"""Files that other users of the machine cannot read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from signoff.broker.server.private import private_folder, private_text, private_text_once
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
"""A neighbour process that reads files and folders."""


def mode(path: Path) -> int:
    """Return the permissions of a file or folder."""
    return path.stat().st_mode & 0o777


def test_a_new_folder_is_private_under_every_umask(tmp_path: Path) -> None:
    """This holds for every umask of the process."""
    before = os.umask(0)
    try:
        assert mode(private_folder(tmp_path / "state")) == 0o700
    finally:
        os.umask(before)


def test_an_open_folder_is_made_private_with_its_content(tmp_path: Path) -> None:
    """Its content is closed too; the target of a link does not change."""
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
    """Other users cannot read it, even if they could read the file before."""
    file = tmp_path / "url"
    file.write_text("old")
    file.chmod(0o644)
    private_text(file, "new")
    assert (file.read_text(), mode(file)) == ("new", 0o600)
    assert [one.name for one in tmp_path.iterdir()] == ["url"]


@pytest.mark.parametrize("write", [private_text, private_text_once])
def test_concurrent_writers_all_succeed(tmp_path: Path, write: Callable[[Path, str], None]) -> None:
    """Processes that start together all succeed, and each reads one complete text."""
    file, texts = tmp_path / "key", [str(number) * 1000 for number in range(8)]
    together = Barrier(len(texts))

    def start(text: str) -> str:
        together.wait()
        for _ in range(20):
            write(file, text)
        return file.read_text()

    with ThreadPoolExecutor(len(texts)) as threads:
        read = list(threads.map(start, texts))
    assert set(read) <= set(texts)
    assert write is private_text or len(set(read)) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["key"]
    assert mode(file) == 0o600


def test_a_folder_that_cannot_be_created_is_named_in_the_error(tmp_path: Path) -> None:
    """The error names it."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="file/state cannot be created"):
        private_folder(tmp_path / "file" / "state")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A neighbour who created it first could put their own files into it."""
    folder = private_folder(tmp_path / "state")
    os.chown(folder, 65534, 65534)
    private_folder(folder)  # root can
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigError, match="another user"):
        private_folder(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_read_the_folder() -> None:
    """Another user tries it in a folder that everybody may enter."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        folder = private_folder(Path(name) / ".signoff")
        private_text(folder / "url", "secret")
        command = [sys.executable, "-c", LOOK, str(folder), str(folder / "url"), name]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["closed", "closed", "['.signoff']"]
