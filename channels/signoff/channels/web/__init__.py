"""The parts that all routes of the gateway share: problem documents, forms, signatures."""
