"""The routes that answer with bytes instead of pages: a run's spans and samples, and a sign of life."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from flask import Blueprint, Response, jsonify, request

from zerosim.analysis.rows import Choice
from zerosim.errors import InputError, RunError
from zerosim_app.shelf import Shelf
from zerosim_app.spansbin import Encoded, encode

MAX_RANKS_TEXT: Final = 2_000
"""Addresses beyond some 2,000 characters are cut by proxies and browsers."""
MAX_RANKS: Final = 4_096
"""More rows than this are asked for as `all`, or folded into classes."""
KEPT_RUNS: Final = 8
_RANKS: Final = re.compile(r"\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*")
_IMMUTABLE: Final = "private, max-age=31536000, immutable"
_FILES: Final = ("run.json", "spans.parquet", "samples.parquet")


def blueprint(shelf: Shelf) -> Blueprint:
    """Routes over the runs of `shelf`; encoded runs are kept in memory, the last KEPT_RUNS of them.

    `GET /api/runs/<id>/timeline.json | spans.bin | samples.bin`, each with `?ranks=classes` (equal
    ranks once), `all`, or `0,4-7`; `GET /healthz`. With `&v=HASH` of the present content an answer
    may be kept for ever. A wrong request is answered by `{"error": sentence}`: 400 for ranks, 404
    for a run that is not there, 422 for one that cannot be drawn.
    """
    routes = Blueprint("zerosim_runs", __name__)

    @lru_cache(maxsize=KEPT_RUNS)
    def encoded(run_id: str, ranks: str, _stamp: tuple[tuple[int, int], ...]) -> Encoded:
        return encode(shelf.load(run_id), parse_ranks(ranks), ranks, run_id)

    @routes.get("/api/runs/<run_id>/<any('timeline.json', 'spans.bin', 'samples.bin'):part>")
    def run_part(run_id: str, part: str) -> Response:
        ranks = request.args.get("ranks", "classes")
        try:
            parse_ranks(ranks)
        except InputError as error:
            return _refusal(error, 400)
        try:
            stamp = _stamp(shelf.path_of(run_id))
        except RunError as error:
            return _refusal(error, 404)
        try:
            return _answer(part, encoded(run_id, ranks, stamp))
        except InputError as error:
            return _refusal(error, 422)

    @routes.get("/healthz")
    def healthz() -> Response:
        return Response("ok\n", mimetype="text/plain")

    return routes


def parse_ranks(text: str) -> Choice:
    """`classes`, `all`, or ranks as `0,4-7`. Raises InputError for anything else."""
    if text == "classes":
        return "classes"
    if text == "all":
        return "all"
    if len(text) > MAX_RANKS_TEXT or not _RANKS.fullmatch(text):
        raise InputError(f"ranks '{text[:40]}': give classes, all, or ranks such as 0,4-7")
    ranks: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) - int(first) >= MAX_RANKS:
            raise InputError(f"ranks '{part}' are over {MAX_RANKS}: choose fewer")
        ranks.update(range(int(first), int(last or first) + 1))
    if not 0 < len(ranks) <= MAX_RANKS:
        raise InputError(f"'{text[:40]}' names {len(ranks)} ranks: choose 1 to {MAX_RANKS}")
    return tuple(sorted(ranks))


def _stamp(path: Path) -> tuple[tuple[int, int], ...]:
    # Changes when a run of the same name is written again.
    try:
        stats = [(path / name).stat() for name in _FILES]
    except OSError as error:
        raise RunError(f"run '{path.name}' is damaged ({error.strerror}): make it again") from None
    return tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)


def _answer(part: str, run: Encoded) -> Response:
    if part == "timeline.json":
        response = Response(run.timeline, mimetype="application/json")
        response.set_etag(run.timeline_etag)
        response.headers["Cache-Control"] = "no-cache"
    else:
        body = run.spans if part == "spans.bin" else run.samples
        response = Response(body, mimetype="application/octet-stream")
        response.set_etag(run.etag)
        current = request.args.get("v") == run.etag
        response.headers["Cache-Control"] = _IMMUTABLE if current else "no-cache"
    response.make_conditional(request)
    return response


def _refusal(error: InputError, status: int) -> Response:
    response = jsonify(error=str(error))
    response.status_code = status
    return response
