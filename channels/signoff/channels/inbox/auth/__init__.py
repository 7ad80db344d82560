"""Signing in to the page: sessions, second factors, passkeys, links, OpenID Connect."""
