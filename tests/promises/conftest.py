"""The promises use the worker's office where one process is enough, and a plant where not."""

from worker.conftest import agents_folder, long_running, office, worker_redis

__all__ = ["agents_folder", "long_running", "office", "worker_redis"]
