"""What a call has and what an approver fills in: payloads, forms, digests."""
