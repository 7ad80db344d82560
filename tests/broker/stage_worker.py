"""A Celery worker process that works on the stage `route`.

Usage: python stage_worker.py BROKER_URL REDIS_URL PREFIX

It pushes "ready" and the ids of the items that it acknowledges onto the list `done`.
For an item with the id "hold", it says "holding" and continues when the list `go` has an entry.
"""

from __future__ import annotations

import sys
from typing import Any

import redis
from celery import signals

from signoff.broker import stages
from signoff.broker.doorbells.celery import make_celery, queues
from signoff.broker.doorbells.loop import LoopThread
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store


def main(broker_url: str, redis_url: str, prefix: str) -> None:
    """Work until SIGTERM."""
    app = make_celery(broker_url)
    app.conf.task_queues = queues([stages.ROUTE])
    loop = LoopThread()
    done = redis.Redis.from_url(redis_url)

    async def open_ledger() -> Ledger:
        return Ledger(Store.open(redis_url, prefix=prefix))

    ledger = loop.run(open_ledger())

    async def drain(stage: str) -> None:
        while items := (await ledger.claim(stage)).items:
            for item in items:
                if item.id == "hold":
                    done.rpush(f"{prefix}done", "holding")
                    done.blpop([f"{prefix}go"])
                await ledger.commit(Change().ack(item))
                done.rpush(f"{prefix}done", item.id)

    @app.task(name=stages.task(stages.ROUTE))
    def route(stage: str) -> None:
        loop.run(drain(stage))

    @signals.worker_ready.connect(weak=False)
    def ready(**_: Any) -> None:
        done.rpush(f"{prefix}done", "ready")

    app.worker_main(["worker", "--pool=threads", "--concurrency=4", "--loglevel=WARNING"])


if __name__ == "__main__":
    main(*sys.argv[1:])
