"""The client is a separate distribution without server packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

ALONE = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        known = sys.stdlib_module_names | {allowed!r}
        if top not in known and not top.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.path.insert(0, {folder!r})
sys.meta_path.insert(0, Refused())
from signoff.client import ApiUnreachable, AsyncClient, Client
assert all(one.__file__.startswith({folder!r}) for name, one in sys.modules.items()
           if name.startswith("signoff.")), "another copy was imported"
try:
    Client("http://127.0.0.1:9", "x", tries=1).me()
except ApiUnreachable:
    print("imported and used")
"""
WITH_THEM = frozenset(
    {"signoff", "httpx", "pydantic", "anyio", "certifi", "h11", "httpcore", "idna", "sniffio"}
    | {"annotated_types", "pydantic_core", "typing_extensions", "typing_inspection"}
)
"""The packages that httpx and pydantic need."""


@pytest.fixture
def settings() -> Any:
    """Return the settings of the client's distribution."""
    return tomllib.loads((ROOT / "core" / "client" / "pyproject.toml").read_text(encoding="utf-8"))


def test_wheel_needs_only_httpx_and_pydantic(settings: Any, tmp_path: Path) -> None:
    """The files of the wheel can be imported and used without other packages."""
    included = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for source, target in included.items():
        path = (ROOT / "core" / "client" / source).resolve()
        place = tmp_path / target
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, place, dirs_exist_ok=True)
        else:
            shutil.copy(path, place)
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE.format(allowed=set(WITH_THEM), folder=str(tmp_path))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "imported and used"), done.stderr


def test_wheel_has_the_version_and_bounds_of_signoff(settings: Any) -> None:
    """Both distributions are released together."""
    project = settings["project"]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == whole["version"]
    assert project["requires-python"] == whole["requires-python"]
    assert set(project["dependencies"]) <= set(whole["dependencies"])
