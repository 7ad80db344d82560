"""What all routes of the gateway share: problem documents, forms, signatures."""
