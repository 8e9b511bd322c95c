"""The routes that take files: what shall come, its slices one after the other, and that it shall not."""

from __future__ import annotations

from typing import Any, Final

from flask import Blueprint, Response, jsonify, request

from zerosim.errors import InputError
from zerosim_app.uploads import Announced, Uploads

SLICE_BYTES: Final = 8 * 2**20
"""So much is sent at a time: neither side ever holds more of a file in memory."""
MAX_BODY_BYTES: Final = 2 * SLICE_BYTES
"""No request is bigger: a slice, or what a page says of itself."""


def blueprint(uploads: Uploads) -> Blueprint:
    """`POST /api/uploads` with `{"files": [{"name", "size"}]}` answers `{"id", "slice_bytes"}`;
    `PUT /api/uploads/<id>/<index>?at=BYTE` puts a slice behind what came of a file, and answers
    `{"received": bytes}`; `DELETE /api/uploads/<id>` gives up.

    A wrong request is answered by `{"error": sentence}`: 404 for what nobody announced, 409 for a
    slice out of order (`received` says which byte is next; the last one, sent once more, is in order),
    413 for one too long, else 400.
    """
    routes = Blueprint("zerosim_uploads", __name__, url_prefix="/api/uploads")

    @routes.post("")
    def begin() -> tuple[Response, int]:
        try:
            upload_id = uploads.begin(_announced(request.get_json(force=True, silent=True)))
        except InputError as error:
            return jsonify(error=str(error)), 400
        return jsonify(id=upload_id, slice_bytes=SLICE_BYTES), 201

    @routes.put("/<upload_id>/<int:index>")
    def add(upload_id: str, index: int) -> tuple[Response, int]:
        nbytes, start = request.content_length, request.args.get("at", type=int)
        if nbytes is None or start is None:
            return jsonify(error="a slice comes with its length, and `at`, where it begins"), 400
        if nbytes > SLICE_BYTES:
            return jsonify(error=f"a slice has {SLICE_BYTES:,} bytes at most, not {nbytes:,}"), 413
        try:
            received = uploads.append(upload_id, index, start, request.stream, nbytes)
        except KeyError:
            lost = "the server no longer knows these files: drop them again"
            return jsonify(error=lost), 404
        except InputError as error:
            return jsonify(error=str(error)), 400
        if received != start + nbytes:
            out_of_order = f"byte {received:,} is next, not {start:,}"
            return jsonify(error=out_of_order, received=received), 409
        return jsonify(received=received), 200

    @routes.delete("/<upload_id>")
    def drop(upload_id: str) -> tuple[Response, int]:
        uploads.drop(upload_id)
        return jsonify(dropped=upload_id), 200

    return routes


def _announced(asked: Any) -> tuple[Announced, ...]:  # noqa: ANN401 - JSON of a stranger
    files = asked.get("files") if isinstance(asked, dict) else None
    if not isinstance(files, list):
        raise InputError("say what shall come: {'files': [{'name': …, 'size': …}]}")
    return tuple(_file(file) for file in files)


def _file(file: Any) -> Announced:  # noqa: ANN401 - same
    name, size = (file.get("name"), file.get("size")) if isinstance(file, dict) else (None, None)
    if not isinstance(name, str) or type(size) is not int or size < 0:
        raise InputError(f"'{str(file)[:80]}' is no file: say its name, and its size in bytes")
    return Announced(name, size)
