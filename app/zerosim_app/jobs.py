"""Work that outlasts a request: started in a thread, asked for its progress, never lost silently."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Literal
from uuid import uuid4

import flask

from zerosim.errors import ZerosimError

Status = Literal["running", "done", "failed"]
Report = Callable[[str], None]
_CONFIG_KEY: Final = "ZEROSIM_JOBS"
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work: `said` is its last progress, its result, or the sentence of its error."""

    id: str
    status: Status
    said: str


@dataclass(slots=True)
class Jobs:
    """The jobs of one app. Each runs in a thread of its own that dies with the server."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[str, Job] = field(default_factory=dict)

    def start(self, work: Callable[[Report], str]) -> str:
        """Run `work(report)` in the background; what it returns is the last word. Returns the id."""
        job = Job(uuid4().hex, "running", "starting")
        self._put(job)
        threading.Thread(target=self._run, args=(job, work), daemon=True).start()
        return job.id

    def get(self, job_id: str) -> Job:
        """What is known of a job; one that nobody knows has failed (the server was restarted)."""
        with self._lock:
            lost = Job(job_id, "failed", "the server no longer knows this import: start it again")
            return self._known.get(job_id, lost)

    def _run(self, job: Job, work: Callable[[Report], str]) -> None:
        def report(said: str) -> None:
            self._put(replace(job, said=said))

        try:
            self._put(replace(job, status="done", said=work(report)))
        except ZerosimError as error:
            self._put(replace(job, status="failed", said=str(error)))
        except Exception as error:  # noqa: BLE001 - the thread's last line of defence: the page must hear of it
            _LOG.exception("a background job failed")
            self._put(replace(job, status="failed", said=f"this is a bug in zerosim: {error!r}"))

    def _put(self, job: Job) -> None:
        with self._lock:
            self._known[job.id] = job


def put_jobs(server: flask.Flask, jobs: Jobs) -> None:
    """Give a server its jobs."""
    server.config[_CONFIG_KEY] = jobs


def jobs() -> Jobs:
    """The jobs of the app that answers the current request."""
    found: Jobs = flask.current_app.config[_CONFIG_KEY]
    return found
