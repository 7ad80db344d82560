"""A service that is missing: skipped at home, failed in CI."""

from __future__ import annotations

import pytest

import services


def test_at_home_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users who lack a service can still run the other tests, and are told what to install."""
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install rabbitmq-server"):
        services.missing("rabbitmq-server", "apt-get install rabbitmq-server")


def test_in_ci_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where everything has to be there, nothing is silently left out."""
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="rabbitmq-server is not installed"):
        services.missing("rabbitmq-server", "apt-get install rabbitmq-server")
