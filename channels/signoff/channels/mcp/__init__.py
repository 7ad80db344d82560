"""A gate in front of a server of the Model Context Protocol.

Each `tools/call` needs an approval, which the gate requests as a program (see
`signoff.core.approvals.programs`). All other messages pass unchanged. Clients and servers need no
change.

Sources: https://modelcontextprotocol.io/specification, 2025-11-25 and 2026-07-28.
"""
