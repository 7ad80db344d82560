"""The runtime for agents behind an ADK API server, written in any language.

It drives a running ``adk api_server`` by REST: ``/list-apps``, the sessions API and ``/run_sse``.
It finds pauses, checks and posts answers, and drains turns like the runtime in this process. The
differences come from what REST cannot do:

- *The guard does not run there.* The server itself must run a tool only once for one answer, and
  ADK does so if it gets the answer once. So this runtime posts an answer at most once: it commits a
  note to the ledger before it posts. A worker that resumes after that never posts the answer again,
  but reads the session: a call with a result has run, and an approved call without one is in doubt.
- *The gates do not give the model the reason.* An answer is strictly ``{confirmed, payload}``; the
  gates of ADK drop the payload of a rejection and tell the model only that the call was rejected.
  The reason is sent as the session state ``signoff_refusal``, which the agent's instruction may
  quote: ``{signoff_refusal?}``. An LlmAgent also gets it in a message after the turn.
- *A tool that asks in its own code also runs after a rejection*, with ``confirmed`` false and the
  reason as payload; its own code has to check that.
- *A pause is answered as a whole*, unless the settings say that the app is resumable.
- *A half-written pause cannot be repaired.* A Python server that dies while it writes one leaves a
  call that nobody can approve, and the run fails. Other servers write a pause in one step.
- *An interrupted turn resumes only if the server is written in Python.* Other servers start over
  with every message, and do not resume without one.

A message is sent once: it has the session state ``signoff_run``, which every ADK stores with the
event of the message, and the runtime reads the session before it sends anything.
"""
