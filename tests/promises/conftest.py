"""The promises use the worker's office where one process is enough, and a plant where not."""

from channels.conftest import still_channels
from worker.conftest import agents_folder, long_running, office, worker_redis

__all__ = ["agents_folder", "long_running", "office", "still_channels", "worker_redis"]
