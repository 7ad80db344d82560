"""The runtime for agents behind an ADK API server, in whatever language they are written.

It drives a running ``adk api_server`` by REST: ``/list-apps``, the sessions API and ``/run_sse``.
The pauses are found, the answers are checked and given, and the turns are drained as by the runtime
in this process. What is different is what the wire cannot carry:

- *The guard does not run there.* That a tool runs once on one answer is the server's own promise;
  ADK keeps it for an answer that it gets once. So here an answer is posted at most once: a commit
  to the ledger says that it will be, before it is. A worker that takes the resume up after that
  never posts it again, but looks into the session: a result is a result, and an approved call
  without one is in doubt.
- *The gates do not tell the model why.* An answer is strictly ``{confirmed, payload}``; the gates
  of ADK drop the payload of a rejection and tell the model only that the call was rejected. The
  reason goes along as the session state ``signoff_refusal``, which the agent's instruction may
  quote: ``{signoff_refusal?}``. To an LlmAgent it is also said, in a message behind the turn.
- *A tool that asks in its own code is entered when it was rejected*, with ``confirmed``
  false and the reason as payload; only its own code looks at that.
- *A pause is answered whole*, unless the settings say that the app is resumable.
- *Half a pause cannot be repaired.* A Python server that dies while it writes one leaves a call
  that nobody can approve; the run fails and says so. Other servers write a pause in one piece.
- *A turn is gone on with only where the server is written in Python.* Others begin anew with every
  message, and do not go on without one.

A message is said once: it goes with the session state ``signoff_run``, which every ADK keeps on the
event of the message, and the session is looked at before anything is said.
"""
