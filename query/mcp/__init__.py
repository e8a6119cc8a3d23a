"""The Model Context Protocol: the operations of the service as read-only tools and resources, for agents.

By the protocol's official SDK, over streamable HTTP without sessions, in both of its eras: requests that carry all
they need (2026-07-28), and those after a handshake (2025-11-25 and before). `tools` and `templates` list what there is,
`endpoint` is the way in by HTTP, and `server` speaks the protocol over whatever answers.
"""
