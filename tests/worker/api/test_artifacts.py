"""Artifacts: stored for every worker, and read through the API."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from google.adk.cli.conformance.adk_web_server_client import AdkWebServerClient

from worker.api.client import Site, calls_of, events_of, site, words_of

pytestmark = [pytest.mark.soak, pytest.mark.asyncio(loop_scope="module")]

NAME = "letters/draft.txt"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """An installation for the user of this machine."""
    async with site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def paused(here: Site) -> tuple[str, str]:
    """Return a session with two versions of a draft, and its waiting call."""
    session = await here.session("keeps")
    calls_of(await here.say("keeps", session, "Dear Sir"))
    (call,) = calls_of(await here.say("keeps", session, "Dear Madam"))
    return session, call


async def get(here: Site, session: str, path: str) -> httpx.Response:
    """Get an artifact resource of a session."""
    return await here.http.get(f"/apps/keeps/users/user/sessions/{session}/artifacts{path}")


async def test_artifacts_are_listed_and_loaded(here: Site, paused: tuple[str, str]) -> None:
    """By name and by version; a name may have slashes."""
    session, _ = paused
    assert (await get(here, session, "")).json() == [NAME]
    assert (await get(here, session, f"/{NAME}/versions")).json() == [0, 1]
    texts = {
        path: base64.urlsafe_b64decode(
            (await get(here, session, f"/{NAME}{path}")).json()["inlineData"]["data"]
        )
        for path in ("", "?version=0", "/versions/0", "/versions/1", "/versions/latest")
    }
    assert texts == {
        "": b"Dear Madam",
        "?version=0": b"Dear Sir",
        "/versions/0": b"Dear Sir",
        "/versions/1": b"Dear Madam",
        "/versions/latest": b"Dear Madam",
    }


async def test_client_of_adk_reads_artifact_versions(here: Site, paused: tuple[str, str]) -> None:
    """google-adk's conformance client can use its methods for artifacts."""
    where: dict[str, Any] = {"app_name": "keeps", "user_id": "user", "session_id": paused[0]}
    async with AdkWebServerClient(base_url=here.url) as client:
        listed = await client.list_artifact_versions_metadata(**where, artifact_name=NAME)
        assert [one.version for one in listed] == [0, 1]
        one = await client.get_artifact_version_metadata(**where, artifact_name=NAME, version=1)
        assert (one.version, one.mime_type) == (1, "text/plain")


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/other.txt", 404, "no-such-artifact"),
        (f"/{NAME}/versions/7", 404, "no-such-artifact"),
        (f"/{NAME}/versions/7/metadata", 404, "no-such-artifact"),
        (f"/{NAME}/versions/one", 422, "invalid"),
        (f"/{NAME}?version=-1", 422, "invalid"),
        (f"/{NAME}?version={'0' * 5000}", 422, "invalid"),
        (f"/{NAME}/versions/{'0' * 12}{'9' * 12}", 422, "invalid"),
        ("/..%2f..%2fother", 422, "invalid"),
    ],
)
async def test_missing_artifact_is_a_problem_document(
    here: Site, paused: tuple[str, str], path: str, status: int, kind: str
) -> None:
    """This includes a name that leads outside."""
    answer = await get(here, paused[0], path)
    assert answer.status_code == status, answer.text
    assert answer.json()["type"] == f"urn:signoff:problem:{kind}"


async def test_artifacts_of_another_session_are_not_found(here: Site) -> None:
    """An unknown session looks the same as another user's session."""
    answer = await get(here, "none", "")
    assert (answer.status_code, answer.json()["type"]) == (
        404,
        "urn:signoff:problem:no-such-session",
    )


async def test_artifacts_cannot_be_changed(here: Site, paused: tuple[str, str]) -> None:
    """A waiting request may refer to an artifact."""
    path = f"/apps/keeps/users/user/sessions/{paused[0]}/artifacts"
    body = {"filename": NAME, "artifact": {"text": "x"}}
    for answer in (
        await here.http.post(path, json=body),
        await here.http.delete(f"{path}/{NAME}"),
    ):
        assert answer.json()["type"] == "urn:signoff:problem:not-served"
    assert (await get(here, paused[0], f"/{NAME}/versions")).json() == [0, 1]


async def test_another_process_finds_a_saved_artifact(here: Site, paused: tuple[str, str]) -> None:
    """The worker that resumes the run is not the one that saved the draft."""
    session, call = paused
    await here.plant.kill("worker")
    answered = await here.answer("keeps", session, call, {"confirmed": True})
    assert "Dear Madam" in words_of(events_of(answered))
