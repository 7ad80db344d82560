"""An ADK API server in front of the workers: the gateway serves it to ADK's own clients.

It serves ``/list-apps``, ``/version``, ``/health``, the sessions API, ``/run`` and ``/run_sse``
(google.adk.cli.api_server). It differs from ADK's own server:

- *The agents run on the workers.* A message becomes a run, and its events come back through Redis.
  If a client disconnects, its stream ends and the run continues. If a worker dies, another one
  takes over, and the stream continues.
- *A confirmation is an answer like any other.* It counts only from an approver, once, and by the
  rules of the policy. Access to a user's sessions does not allow a client to decide.
- *Nothing is ignored.* If a part of a request would be dropped (files in a message, restored
  events, state sent with a message), the request is refused with a problem document (RFC 9457).
- *Remote agents are served too.* Their sessions stay on their own API servers.
"""
