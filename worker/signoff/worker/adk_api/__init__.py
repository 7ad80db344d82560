"""An ADK API server in front of the workers: what ADK's own clients speak, by the gateway.

Served are ``/list-apps``, ``/version``, ``/health``, the sessions API, ``/run`` and ``/run_sse``
(google.adk.cli.api_server). What is different from ADK's own server:

- *The agents run on the workers.* A message is a run; its events come back through Redis. A client
  that goes away ends the stream and not the run; a worker that dies is followed by another, and
  the stream goes on.
- *A confirmation is an answer like any other.* It counts only from somebody who is asked, once,
  and by the rules of the policy; what the client holds for the session's user decides nothing.
- *Nothing is half understood.* What would be dropped (files in a message, restored events, state
  sent along with a message) is refused with a problem document (RFC 9457), not ignored.
- *Agents elsewhere too.* The sessions of those behind API servers stay where they are.
"""
