"""Jobs: they report, they end, and their errors are one sentence."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from zerosim.errors import InputError
from zerosim_app.jobs import Job, Jobs, Report


def wait(jobs: Jobs, job_id: str) -> Job:
    for _ in range(500):
        job = jobs.get(job_id)
        if job.status != "running":
            return job
        time.sleep(0.01)
    raise AssertionError("the job did not end")


def test_a_job_ends_with_what_it_returns() -> None:
    jobs = Jobs()
    assert wait(jobs, jobs.start(lambda _: "done it")).said == "done it"


def test_a_job_reports_how_far_it_is() -> None:
    jobs, go = Jobs(), threading.Event()

    def work(report: Report) -> str:
        report("half way")
        go.wait(5)
        return "end"

    job = jobs.start(work)
    for _ in range(500):
        if jobs.get(job).said == "half way":
            break
        time.sleep(0.01)
    assert jobs.get(job) == Job(job, "running", "half way")
    go.set()
    assert wait(jobs, job) == Job(job, "done", "end")


def test_wrong_input_fails_with_its_sentence() -> None:
    jobs = Jobs()

    def work(_: Report) -> str:
        raise InputError("'x.json' is no trace: give another")

    job = wait(jobs, jobs.start(work))
    assert (job.status, job.said) == ("failed", "'x.json' is no trace: give another")


def test_a_bug_fails_as_a_bug_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    jobs = Jobs()

    def work(_: Report) -> str:
        raise ZeroDivisionError("oops")

    with caplog.at_level(logging.ERROR):
        job = wait(jobs, jobs.start(work))
    assert job.status == "failed"
    assert job.said.startswith("this is a bug in zerosim: ZeroDivisionError")
    assert "a background job failed" in caplog.text


def test_a_job_that_nobody_knows_has_failed() -> None:
    assert Jobs().get("gone").status == "failed"
