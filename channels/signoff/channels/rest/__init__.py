"""The REST API, version 1: everything that the other channels do, for programs."""
