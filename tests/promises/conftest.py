"""Fixtures of the promises: the worker's office in one process, or a plant of real processes."""

from channels.conftest import still_channels
from worker.conftest import agents_folder, long_running, office, worker_redis

__all__ = ["agents_folder", "long_running", "office", "still_channels", "worker_redis"]
