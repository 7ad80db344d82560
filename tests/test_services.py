"""A missing service skips tests on a developer's machine, and fails them in CI."""

from __future__ import annotations

import pytest

import services


def test_missing_service_skips_the_test_locally(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person without a service can run the other tests, and reads what to install."""
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install rabbitmq-server"):
        services.missing("rabbitmq-server", "apt-get install rabbitmq-server")


def test_missing_service_fails_the_test_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """CI has every service, so a missing one is a failure."""
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="rabbitmq-server is not installed"):
        services.missing("rabbitmq-server", "apt-get install rabbitmq-server")
