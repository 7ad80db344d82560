"""Rules for the whole project: its packages, layers, errors and names."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import signoff
from services import program
from signoff.core.base import errors

ROOT = Path(__file__).parents[1]
ROOTS = [ROOT / name / "signoff" for name in ("core", "channels", "worker", "cli")]
SOURCES = sorted(path for root in ROOTS for path in root.rglob("*.py"))


def relative(path: Path) -> str:
    """Return a path relative to the repository."""
    return str(path.relative_to(ROOT))


def test_signoff_is_a_namespace() -> None:
    """An `__init__.py` in one root would hide the packages of the others."""
    assert [relative(root) for root in ROOTS if (root / "__init__.py").exists()] == []
    assert signoff.__file__ is None
    assert set(signoff.__path__) >= {str(root) for root in ROOTS}


def test_every_package_has_an_init() -> None:
    """Below the namespace, folders are ordinary packages with docstrings."""
    for source in SOURCES:
        init = source.with_name("__init__.py")
        assert init.exists(), relative(init)


def test_import_contracts_hold() -> None:
    """import-linter's contracts hold."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_no_code_uses_smtplib() -> None:
    """All code sends mail through aiosmtplib, including tests, examples and benchmarks.

    Text that runs as a program is checked too, because it can import anything.
    """
    folders = ("core", "channels", "worker", "cli", "tests", "benchmarks", "examples", "docs")
    sources = [path for name in folders for path in (ROOT / name).rglob("*.py")]
    imports = re.compile(
        r"^\s*(from|import)\s[^#\n]*\bsmtplib\b|import_module\(.smtplib", re.MULTILINE
    )
    found = {relative(one) for one in sources if imports.search(one.read_text(encoding="utf-8"))}
    assert {"tests/dovecot.py", "cli/signoff/cli/demo/dev_mailbox.py"} <= set(
        map(relative, sources)
    )
    assert found == set()


def tree() -> list[str]:
    """Return the error tree as its module's docstring shows it, without the remarks."""
    return [f"{indent}{kind.__name__}" for indent, kind in branches(errors.SignoffError, "", "")]


def branches(
    kind: type[Exception], first: str, others: str
) -> Iterator[tuple[str, type[Exception]]]:
    """Yield each class of a branch with its prefix in the tree."""
    yield first, kind
    below = sorted(kind.__subclasses__(), key=lambda one: inspect.getsourcelines(one)[1])
    below = [one for one in below if one.__module__ == errors.__name__]
    for one in below:
        last = one is below[-1]
        yield from branches(
            one, others + ("└── " if last else "├── "), others + ("    " if last else "│   ")
        )


def test_error_tree_in_the_docstring_matches_the_classes() -> None:
    """The tree in the docstring of core/errors.py has the classes in their order."""
    drawn = [
        line
        for line in (errors.__doc__ or "").splitlines()
        if line.startswith(("SignoffError", "├", "│", "└", "    "))
    ]
    names = [
        line[: line.index(line.lstrip("│├└─ "))] + line.lstrip("│├└─ ").split()[0] for line in drawn
    ]
    assert names == tree()


def test_every_error_is_in_the_tree() -> None:
    """Every error that the project raises derives from SignoffError and has a docstring."""
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, BaseException):
            assert issubclass(kind, errors.SignoffError), name
            assert kind.__doc__, name


def modules() -> list[ModuleType]:
    """Import every module of core and broker."""
    return [
        importlib.import_module(info.name)
        for package in ("core", "broker")
        for info in pkgutil.walk_packages(
            [str(ROOT / "core" / "signoff" / package)], prefix=f"signoff.{package}."
        )
    ]


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_public_names_have_docstrings_and_are_exported(module: ModuleType) -> None:
    """Every module, public class and public function has a docstring; `__all__` is correct."""
    assert module.__doc__
    for name in getattr(module, "__all__", ()):
        assert hasattr(module, name), name
    for name, thing in vars(module).items():
        mine = getattr(thing, "__module__", None) == module.__name__
        if mine and not name.startswith("_") and (inspect.isclass(thing) or callable(thing)):
            assert inspect.getdoc(thing), name


PUBLIC = {
    "signoff.core.approvals.approval": (
        "Approval Asked Decision HANDOFFS Handoff Origin State TRANSITIONS ToolCall "
        "Transition approval_id"
    ),
    "signoff.core.routing.selection": "Choice choose",
    "signoff.core.policies.policy": "Fallback OnTimeout Policy Terms",
    "signoff.core.directory.people": "Directory Person",
    "signoff.core.approvals.run": "RUN_TRANSITIONS Run RunState",
    "signoff.core.payloads.digest": "digest",
    "signoff.core.cards.card": "Card Row card",
    "signoff.broker.ledger.change": "Change Item",
    "signoff.broker.effects": "settle",
    "signoff.broker.decisions": "Decisions",
    "signoff.broker.ledger.ledger": "Bell LeasedBatch Ledger SilentBell read_approval read_run",
    "signoff.broker.ledger.store": "Clock Store",
    "signoff.broker.doorbells.celery": "CeleryBell make_celery queues",
    "signoff.broker.server.embedded": "EmbeddedRedis",
    "signoff.broker.timers.reconciler": "Reconciler",
    "signoff.broker.ledger.rebuild": "rebuild",
    "signoff.broker.ledger.audit": "entries verify",
    "signoff.broker.server.health": "redis_problems",
    "signoff.broker.heartbeat": "alive beat",
    "signoff.testing": "FakeChannel Rehearsal ScriptedModel VirtualClock",
}


@pytest.mark.parametrize("name", PUBLIC)
def test_stable_public_names_exist(name: str) -> None:
    """They exist; removing one is a change that needs an entry in the change log."""
    module = importlib.import_module(name)
    assert [one for one in PUBLIC[name].split() if not hasattr(module, one)] == []


def test_every_context_cleans_up_also_after_an_error() -> None:
    """Code after a bare `yield` does not run if the body raises, for example in a skipped test."""
    sources = [*SOURCES, *(ROOT / "tests").rglob("*.py")]
    texts = {one: one.read_text(encoding="utf-8") for one in sources}
    found = [
        f"{relative(source)}: {node.name}"
        for source, text in texts.items()
        if "contextmanager" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(ast.unparse(one).endswith("contextmanager") for one in node.decorator_list)
        and list(unguarded(node))
    ]
    assert found == []


def unguarded(block: ast.AST) -> Iterator[int]:
    """Yield the line of each `yield` that has code after it in its own block."""
    for name in ("body", "orelse", "finalbody"):
        lines = getattr(block, name, None)
        if not isinstance(lines, list):
            continue
        guarded = isinstance(block, ast.Try) and bool(block.finalbody or block.handlers)
        for place, line in enumerate(lines):
            yields = isinstance(line, ast.Expr | ast.Assign) and isinstance(line.value, ast.Yield)
            behind = [one for one in lines[place + 1 :] if not isinstance(one, ast.Return)]
            if yields and behind and not guarded:
                yield line.lineno
            if isinstance(line, ast.With | ast.AsyncWith | ast.If | ast.For | ast.Try):
                yield from unguarded(line)


def hook() -> ModuleType:
    """Load hatch_build.py, which otherwise only the build imports."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("git@github.com:own/signoff.git", "https://github.com/own/signoff"),
        ("https://github.com/own/signoff.git", "https://github.com/own/signoff"),
        ("https://token@git.example.com/own/signoff", "https://git.example.com/own/signoff"),
        ("ssh://git@git.example.com/own/signoff.git", "https://git.example.com/own/signoff"),
        ("/srv/signoff.git", ""),
    ],
)
def test_package_links_lead_to_its_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: str, address: str
) -> None:
    """Each README link to a file leads to the repository, and the Project-URLs are set."""
    monkeypatch.delenv("SIGNOFF_REPOSITORY_URL", raising=False)
    git = program("git", "git")
    for words in (("init", "-q"), ("remote", "add", "origin", remote)):
        subprocess.run([git, "-C", str(tmp_path), *words], check=True)
    assert hook().repository_of(tmp_path) == address
    assert bool(hook().urls_of(address)) is bool(address)
    readme = (ROOT / "README.md").read_text("utf-8")
    written = hook().with_links(readme, address, "v1.2.3")
    relative_links = re.findall(r'(?:\]\(|src="|srcset=")(?!https?:|#)', written)
    assert (relative_links == []) is bool(address)


def test_package_contains_the_files_that_init_copies() -> None:
    """The example agent and the first settings are in the folders that `example_files` uses."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    carried = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert carried == {
        f"examples/{one}": f"signoff/cli/examples/{one}" for one in ("agents", "start")
    }
    copied = (ROOT / "Dockerfile").read_text("utf-8")
    assert all(one in copied for one in (*carried, "hatch_build.py"))


def test_packages_are_installed_again_for_another_interpreter(tmp_path: Path) -> None:
    """If Python was upgraded, the packages of its virtual environment are gone with it."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    environment = tmp_path / ".venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to(tmp_path / "gone")
    for target in ("demo", "test"):
        for stamp in (".runtime", ".dev"):
            (environment / stamp).touch()
        shown = subprocess.run(
            ["make", "--dry-run", target], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert ".ci/install" in shown.stdout
