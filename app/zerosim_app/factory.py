"""Makes the dashboard: one function from a library of runs to a Dash app, without global state."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dash import Dash

from zerosim_app import pages, receiving, routes
from zerosim_app.colours import stylesheet
from zerosim_app.components import shell, timeline
from zerosim_app.config import MAX_DROP_BYTES, MAX_UPLOAD_BYTES, examples_path
from zerosim_app.guard import guard
from zerosim_app.jobs import Jobs, put_jobs
from zerosim_app.shelf import Shelf, put_shelf
from zerosim_app.uploads import Uploads, put_uploads

_IMPORTED_MODULES: Final = r"^[123]\d_zs_.*\.mjs$"
"""Modules that 40_zs_mount.mjs imports itself: Dash would load each of them a second time."""
_INDEX: Final = """<!DOCTYPE html>
<html lang="en">
  <head>
    {%metas%}
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>{%title%}</title>
    <link rel="icon" href="data:,">
    <script>
      // Before the first paint, so that a dark page never flashes white.
      (function () {
        var choice = "auto";
        try { choice = JSON.parse(localStorage.getItem("theme-choice")) || "auto"; } catch (e) {}
        var dark = choice === "dark" ||
          (choice === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
        document.documentElement.setAttribute(
          "data-mantine-color-scheme", dark ? "dark" : "light");
      })();
    </script>
    {%css%}
    <style>{palette}</style>
  </head>
  <body>
    {%app_entry%}
    <footer>{%config%}{%scripts%}{%renderer%}</footer>
  </body>
</html>"""


def create_app(
    library: Path,
    *,
    examples: Path | None = None,
    max_upload_bytes: int = MAX_UPLOAD_BYTES,
    max_drop_bytes: int = MAX_DROP_BYTES,
    host: str = "localhost",
) -> Dash:
    """The dashboard over the runs in `library`, with the examples beside them. Serve `app.server`.

    `max_upload_bytes` is for one dropped file, `max_drop_bytes` for all of a drop. `host` is the name
    that it listens on, if that is neither an address nor localhost.
    """
    app = Dash(
        "zerosim_app",
        use_pages=True,
        pages_folder="",
        assets_folder=str(Path(__file__).parent / "assets"),
        assets_ignore=_IMPORTED_MODULES,
        title="zerosim",
        update_title="",
        suppress_callback_exceptions=True,
        index_string=_INDEX.replace("{palette}", stylesheet()),
    )
    on_show = Shelf(library, examples or examples_path())
    put_shelf(app.server, on_show)
    app.server.register_blueprint(routes.blueprint(on_show))
    uploads = Uploads(max_upload_bytes, max_drop_bytes)
    put_uploads(app.server, uploads)
    app.server.register_blueprint(receiving.blueprint(uploads))
    put_jobs(app.server, Jobs())
    guard(app.server, host)
    app.server.config["MAX_CONTENT_LENGTH"] = receiving.MAX_BODY_BYTES
    app.layout = shell.shell
    shell.register(app)
    for prefix in ("tl", "pair"):
        timeline.register(app, prefix)
    pages.register(app)
    return app
