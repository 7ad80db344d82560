"""docs/how-to/test-your-agents.md, run by pytest as its readers do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from signoff.cli.config.settings import load_settings
from signoff.testing import Rehearsal, ScriptedModel, ToolCall

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "test-your-agents.md"


@pytest.mark.soak
def test_the_page_passes_in_a_folder_that_init_wrote(tmp_path: Path) -> None:
    """The page's code, in its order, is a file of tests, and all of them pass."""
    shutil.copy(ROOT / "examples" / "start" / "signoff.toml", tmp_path)
    shutil.copytree(ROOT / "examples" / "agents" / "finance", tmp_path / "agents" / "finance")
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "test_approvals.py").write_text("\n\n".join(code), "utf-8")
    kept = {name: one for name, one in os.environ.items() if not name.startswith("SIGNOFF_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path,
        env=kept | {"GOOGLE_API_KEY": "", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


HOLDING = """\
[agents]
folder = "{folder}"
[[people]]
id = "mara"
email = "mara@example.com"
[[policies]]
name = "payments"
when = 'tool == "pay"'
ask = ["mara"]
hold = "siblings"
"""


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
async def test_rehearsal_holds_the_calls_beside_a_gated_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one call of a step needs approval, the others wait for it as well."""
    journal = tmp_path / "journal.jsonl"
    monkeypatch.setenv("SIGNOFF_EXAMPLE_JOURNAL", str(journal))
    file = tmp_path / "signoff.toml"
    file.write_text(HOLDING.format(folder=ROOT / "tests" / "worker" / "agents"))
    async with Rehearsal(load_settings(file)) as office:
        run = await office.submit("siblings", "pay both", user="riley@example.com")
        cards = await office.cards(run)
        for card in cards:
            assert not run.text
            run = await office.approve(card)
    assert len(cards) == 2
    assert '"status": "held"' in run.text
    assert '{"found": "C"}' in run.text


async def test_a_scripted_model_speaks_before_a_call() -> None:
    """Text and calls of one reply are parts of one message, in order."""
    model = ScriptedModel(script=lambda _: ["It is urgent.", ToolCall("pay", {"amount": 5})])
    request = LlmRequest(contents=[types.Content(role="user", parts=[types.Part(text="Pay")])])
    (response,) = [one async for one in model.generate_content_async(request)]
    assert response.content is not None
    words, call = response.content.parts or []
    assert words.text == "It is urgent."
    assert call.function_call is not None
    assert (call.function_call.name, call.function_call.args) == ("pay", {"amount": 5})
