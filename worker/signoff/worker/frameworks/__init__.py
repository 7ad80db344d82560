"""Runtimes for agents of other frameworks: Pydantic AI, OpenAI Agents, LangGraph.

Each of them can stop an agent at tool calls that need an approval, say which calls these are, and
go on later from a state that can be stored. None of them sees to it that this happens once. So what
they have in common is small:

- **The state.** An adapter turns what its framework has to keep of a pause into JSON, and says
  which calls wait *in that state* (`adapter.Adapter.waiting`). `sessions` keeps the state in the
  ledger's Redis, as part of the session that ADK's agents have too: it is backed up, erased and
  archived with it. It is written in one step, if the session is as it was read, and the session's
  lease is still held. A worker that takes a turn up finds whether its answers were given already.
- **The gate.** Every tool call of a turn goes through `gate.Gate`, as the last thing before the
  tool's own code. A call that waited for an approval is started once: one commit marks it as
  started if the approval is as it was, proven by its receipt, not too old, not frozen, for these
  very arguments, and the lease is held; another commit keeps its result. What was started and not
  seen to finish is never started again. What has finished gives its stored result.
- **The digest.** `runtime` compares each approval with the call in the stored state before anything
  runs, and the gate compares it with what the tool gets. A call that differs is asked about again.
  A digest of the whole state is part of what is approved: a framework whose state alone says what
  needs an approval does not go on from one that was changed.
- **Edits.** Where a policy has ``edits = "approve"``, the values of an approver become a call of
  their own, which the same person has approved, with a digest, a receipt and an audit trail of its
  own. A framework that can runs that call in the place of the model's. Elsewhere the model is told,
  as ADK's is.

A turn that was cut off is taken up at its last pause: the model is asked again, and tools that
nobody is asked about may run again. What must not happen twice needs an approval, or
`idempotency_key`.
"""
