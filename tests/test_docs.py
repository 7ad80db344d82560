"""The documentation matches the code: links, commands, settings, examples and tables."""

import ast
import functools
import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from signoff.core.approvals.events import What
from signoff.core.policies import conditions

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_INLINE = re.compile(r"`(signoff [^`]+)`")
_RUNS_SIGNOFF = re.compile(r"(?:^|[/\s])signoff\s+\S")


def blocks(page: str, *languages: str) -> list[str]:
    """Return the code blocks of a page in these languages."""
    found = _FENCE.findall((ROOT / page).read_text(encoding="utf-8"))
    return [code for language, code in found if language in languages]


def every_block(*languages: str) -> list[tuple[str, str]]:
    """Return all blocks in these languages, each with its page."""
    return [(page, code) for page in NAMES for code in blocks(page, *languages)]


def generator(name: str = "generate") -> ModuleType:
    """Load docs/generate.py or another file of the folder, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def command_lines(page: str) -> list[str]:
    """Return each command line of a page from `signoff` to the end of the line."""
    lines = [line for code in blocks(page, "sh") for line in code.splitlines()]
    lines = [line for line in lines if not line.startswith("#") and _RUNS_SIGNOFF.search(line)]
    lines = [line[line.index("signoff ") :].partition("  #")[0] for line in lines]
    return lines + _INLINE.findall(_FENCE.sub("", (ROOT / page).read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", NAMES)
def test_each_relative_link_leads_somewhere(page: str) -> None:
    """Each link leads to an existing file, and to a heading that the file has."""
    for link in _LINK.findall(_FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))):
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / path) if path else ROOT / page
        assert target.exists(), f"{page} links to {link}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
            assert anchor in slugs, f"{page} links to {link}"


@functools.cache
def commands() -> dict[tuple[str, ...], Any]:
    """Return every command by its words."""
    return dict(generator().commands())


@pytest.mark.parametrize("page", [page for page in NAMES if command_lines(page)])
def test_each_command_that_is_mentioned_exists_with_its_options(page: str) -> None:
    """Each command on a page exists and accepts the options."""
    known = commands()
    for line in command_lines(page):
        words = shlex.split(line.replace("…", ""))[1:]
        words = words[: words.index("--")] if "--" in words else words
        path: tuple[str, ...] = ()
        while words and (*path, words[0]) in known:
            path = (*path, words.pop(0))
        placeholder = bool(words) and words[0].isupper()
        only_options = all(word.startswith("-") for word in words)
        if not path and not placeholder:
            assert only_options, f"{page}: {line}"
        flags = {flag for one in known[path].params for flag in (*one.opts, *one.secondary_opts)}
        for word in words:
            if word.startswith("--") and word != "--help":
                assert word in flags | {"--config"}, f"{page}: {line}"
        subcommands = [one for one in known if one[:-1] == path]
        if path and subcommands and words and not placeholder:
            assert only_options, f"{page}: {line}"


def test_wheels_on_the_pages_have_the_present_version() -> None:
    """A page that installs a wheel by its file name would install nothing after a release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [
        version
        for _, code in every_block("sh")
        for version in re.findall(r"signoff-(\S+?)-py3-none-any\.whl", code)
    ]
    assert set(named) == {project["version"]}


def settings_blocks() -> list[tuple[str, str]]:
    """Return all settings blocks with their pages: TOML that is not a file of test cases."""
    return [(page, code) for page, code in every_block("toml") if "[[cases]]" not in code]


@pytest.mark.parametrize(("page", "code"), settings_blocks())
def test_each_settings_example_is_valid(
    page: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signoff.toml that is copied from a page is valid."""
    from signoff.cli.config.check import require
    from signoff.cli.config.settings import load_settings

    # The environment variables that the page tells people to set.
    if "[email.imap.oauth]" in code:
        monkeypatch.setenv("SIGNOFF_EMAIL__IMAP__OAUTH__CLIENT_SECRET", "shh")
    elif "[email.smtp.oauth]" in code:
        monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__OAUTH__REFRESH_TOKEN", "shh")
    elif "[email.imap]" in code:
        monkeypatch.setenv("SIGNOFF_EMAIL__IMAP__PASSWORD", "pw")
    elif "username" in code:
        monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__PASSWORD", "pw")
    if "slack" in code:
        monkeypatch.setenv("SIGNOFF_SLACK__BOT_TOKEN", "xoxb-1")
        monkeypatch.setenv("SIGNOFF_SLACK__APP_TOKEN", "xapp-1")
    if "[inbox]" in code:
        monkeypatch.setenv("SIGNOFF_INBOX__SECRET_KEY", "k" * 44)
    if "[inbox.push]" in code:
        monkeypatch.setenv("SIGNOFF_INBOX__PUSH__PRIVATE_KEY", f"{'B' * 43}=")
    file = tmp_path / "signoff.toml"
    file.write_text(code, encoding="utf-8")
    require(load_settings(file))


def test_the_settings_of_the_examples_are_valid() -> None:
    """examples/signoff.toml is valid and has no warnings."""
    from signoff.cli.config.check import check
    from signoff.cli.config.settings import load_settings

    assert check(load_settings(ROOT / "examples" / "signoff.toml")) == []


def test_documented_test_cases_pass_with_the_example_settings(tmp_path: Path) -> None:
    """A file of test cases that is copied from a page passes."""
    from signoff.cli.config.settings import load_settings
    from signoff.cli.policy_cases.results import results_of

    settings = load_settings(ROOT / "examples" / "signoff.toml")
    codes = [code for _, code in every_block("toml") if "[[cases]]" in code]
    assert codes
    for code in codes:
        file = tmp_path / "signoff.test.toml"
        file.write_text(code, encoding="utf-8")
        assert [one.failures for one in results_of(file, settings)] == [()]


@pytest.mark.parametrize(
    ("page", "line"),
    [(page, line) for page, code in every_block("cel") for line in code.splitlines()],
)
def test_documented_conditions_compile_and_can_hold(page: str, line: str) -> None:
    """A CEL example compiles and uses existing names."""
    conditions.check(line)


@pytest.mark.parametrize(("page", "code"), every_block("python"))
def test_each_python_example_is_python(page: str, code: str) -> None:
    """A code example parses."""
    ast.parse(code)


@pytest.mark.parametrize(
    "name",
    [
        "docs/reference/settings.md",
        "docs/reference/cli.md",
        "docs/reference/api.md",
        "channels/signoff/channels/rest/openapi.json",
    ],
)
def test_generated_documentation_is_up_to_date(name: str) -> None:
    """`make docs` changes nothing."""
    expected = generator().pages()[ROOT / name]
    assert (ROOT / name).read_text(encoding="utf-8") == expected, "run `make docs`"


def test_every_setting_is_in_the_reference() -> None:
    """Each section lists all its settings, with their meanings there or in a section above."""
    text = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    listed: list[str] = []
    for section in text.split("\n## `")[1:]:
        name = section.partition("`")[0].strip("[]")
        rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", section, re.MULTILINE)
        assert [key for key, meaning in rows if not meaning] == []
        same = re.findall(r"^As in \[`[^`]+`\]\(\S+\): (.*)\.$", section, re.MULTILINE)
        keys = [key for key, _ in rows] + re.findall(r"`(\w+)`", " ".join(same))
        listed += [f"{name}.{key}" for key in keys]
    assert sorted(listed) == sorted(generator().settings_keys())


def test_every_event_is_in_the_reference() -> None:
    """The table of events has each kind once, and no other."""
    text = (ROOT / "docs/reference/events.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(rows) == sorted(What)


def test_every_redis_key_is_in_the_reference() -> None:
    """Each key that the code makes has a row with its prefix."""
    text = (ROOT / "docs/reference/redis-keys.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([a-z:]+)", text, re.MULTILINE))
    used = set()
    for source in (ROOT / "core").rglob("*.lua"):
        used.update(re.findall(r"p \.\. '([a-z]+:?[a-z]*)", source.read_text(encoding="utf-8")))
    for root in ("core/signoff/broker", "channels", "worker", "cli"):
        for source in (ROOT / root).rglob("*.py"):
            code = source.read_text(encoding="utf-8")
            used.update(re.findall(r"prefix\}([a-z]+:?[a-z]*)", code))
            used.update(re.findall(r"[(=] ?f\"([a-z]+:)\{", code) if "put_raw" in code else ())
            used.update(re.findall(r"return f\"([a-z]+:)\{", code) if "_key(" in code else ())
    assert used
    assert {key for key in used if not any(key.startswith(one) for one in listed)} == set()


def test_every_make_target_that_is_mentioned_exists() -> None:
    """`make demo` and other mentioned targets are in the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):(?!=)", makefile, re.MULTILINE))
    for page in PAGES:
        for code in re.findall(
            r"(?:^|`)make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert code in targets, f"{page.name}: make {code}"


def test_every_attack_of_the_security_model_has_its_tests() -> None:
    """Each row of the tables of attacks names existing tests."""
    page = (ROOT / "docs/explanation/security.md").read_text(encoding="utf-8")
    tried = page.partition("## Attacks that were tried")[2].partition("## What Signoff cannot")[0]
    rows = [
        line for line in tried.splitlines() if line.startswith("| ") and "| tests |" not in line
    ]
    assert len(rows) > 40
    for row in rows:
        named = re.findall(r"`([^`]+)`", row.rsplit("|", 2)[1])
        assert named, row
        assert [name for name in named if not list((ROOT / "tests").glob(name))] == []


def literals() -> str:
    """Return all string literals of the code, joined as Python joins them."""
    roots = ("core", "channels", "worker", "cli")
    sources = [source for root in roots for source in (ROOT / root).rglob("*.py")]
    return "\n".join(
        node.value
        for source in sources
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_every_documented_symptom_exists_in_the_code() -> None:
    """The messages and log events of the troubleshooting page are in the code."""
    page = (ROOT / "docs/how-to/troubleshoot.md").read_text(encoding="utf-8")
    others = {"NOAUTH", "WRONGPASS", "HELLO must be called", "command not allowed when used memory"}
    others |= {"MISCONF", "Can't recover from AOF write error", "BUSY", "/readyz"}
    others |= {
        "this user may not use",
        "has no permissions",
        "can't access at least one of the keys",
    }
    others |= {"ASK", "TRYAGAIN", "MOVED", "CLUSTERDOWN", "Redis is loading the dataset in memory"}
    rows = [line for line in page.splitlines() if line.startswith("| ") and "| symptom" not in line]
    assert len(rows) > 40
    shown = {
        code
        for row in rows
        for code in re.findall(r"`([^`]+)`", row.split(" | ")[0])
        if not code.startswith("[")
    }
    text = literals()
    assert {one for one in shown - others if one not in text} == set()


def test_every_page_is_in_the_index() -> None:
    """docs/README.md links to each page of the folder."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {one.partition("#")[0] for one in _LINK.findall(index)}
    pages = {str(one.relative_to(ROOT / "docs")) for one in (ROOT / "docs").rglob("*.md")}
    assert pages - {"README.md"} == linked


def test_site_lists_each_page_of_the_index_once() -> None:
    """Each page is below the first heading that links to it."""
    sections = (
        "# Top\n[b](b.md)",
        "One\n[a](a.md#x) [b](b.md)",
        "Two\n[a](a.md)",
        "Three\n[c](c.md)",
    )
    index = "\n\n## ".join(sections)
    expected = ["README.md", {"One": ["a.md", "b.md"]}, {"Three": ["c.md"]}]
    assert generator("site_hook").navigation(index) == expected


def test_the_site_invents_no_address() -> None:
    """Links to files lead to the repository, or become plain text if it is unknown."""
    text = "[code](../../core/signoff) [top](../../README.md#x) [here](../README.md)"
    with_links = generator("site_hook").with_links
    assert with_links(text, "../../", "") == "code top [here](../README.md)"
    version = generator("site_hook").version()
    assert with_links(text, "../../", "https://git.example.com/own") == (
        f"[code](https://git.example.com/own/tree/v{version}/core/signoff) "
        f"[top](https://git.example.com/own/blob/v{version}/README.md#x) [here](../README.md)"
    )


def test_production_settings_lack_only_their_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the exports that examples/production.toml names, the settings are complete."""
    from signoff.cli.config.check import check
    from signoff.cli.config.settings import load_settings

    file = ROOT / "examples" / "production.toml"
    errors = [one for one in check(load_settings(file)) if one.severity == "error"]
    told = re.findall(r"^#   export SIGNOFF_(\w+)=", file.read_text("utf-8"), re.MULTILINE)
    missing = [one.key.replace(".", "__").upper() for one in errors]
    assert sorted(missing) == sorted(told)
    for name in told:
        monkeypatch.setenv(f"SIGNOFF_{name}", "k" * 44)
    assert [one for one in check(load_settings(file)) if one.severity == "error"] == []
