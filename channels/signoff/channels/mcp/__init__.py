"""A gate in front of a server of the Model Context Protocol.

Each `tools/call` needs an approval, which the gate asks for as a program does (see
`signoff.core.approvals.programs`); all other messages pass unchanged. Clients and servers do not
know of it.

Sources: https://modelcontextprotocol.io/specification, 2025-11-25 and 2026-07-28.
"""
