"""Runtimes for agents of other frameworks: Pydantic AI, OpenAI Agents, LangGraph.

Each framework can stop an agent at tool calls that need an approval, list these calls, and resume
later from a state that can be stored. No framework ensures that this happens only once. The shared
code does that:

- **The state.** An adapter converts the state that its framework needs after a pause to JSON, and
  lists the calls that wait *in that state* (`adapter.Adapter.waiting`). `sessions` stores the state
  in the ledger's Redis, in a session like those of ADK's agents: it is backed up, erased and
  archived with the session. One commit writes it, if nobody has changed the session since it was
  read and the session's lease is still held. A worker that resumes a turn sees which answers the
  agent has already got.
- **The guard.** Every tool call of a turn goes through `guard.CallGuard`, right before the tool's
  own code. A call that waited for an approval is started once: one commit marks it as started if
  the approval is unchanged, proven by its receipt, not expired, not frozen and for exactly these
  arguments, and if the lease is held. Another commit stores its result. A call that was started and
  not seen to finish is never started again. A call that has finished returns its stored result.
- **The digest.** `runtime` compares each approval with the call in the stored state before anything
  runs, and the guard compares it with the call that the tool gets. A call that differs needs a new
  approval. The approval also covers a digest of the whole state: if only the state determines
  which calls need an approval, the framework does not resume from a changed state.
- **Edits.** If a policy has ``edits = "approve"``, an approver's values become a new call, which
  the same person has approved, with its own digest, receipt and audit trail. If the framework can,
  it runs that call instead of the model's. Otherwise the model gets the values, as in ADK.

A turn that was cut off resumes from its last pause: the model is called again, and tools that need
no approval may run again. If a tool must not run twice, let it require an approval, or use
`idempotency_key`.
"""
