"""A real browser on the real dashboard, with the examples that ship; nothing may leave the machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from zerosim.scenario import load_scenario, run
from zerosim.store import save_run
from zerosim_app.config import examples_path
from zerosim_app.factory import create_app

_LOUD = ("error", "warning")


@pytest.fixture(scope="session", name="library")
def _library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("runs")
    save_run(run(load_scenario("lesson-zero2")), library / "my-zero2")
    save_run(run(load_scenario("lesson-ddp")), library / "my-ddp")
    return library


@pytest.fixture(scope="session", name="address")
def _address(library: Path) -> Iterator[str]:
    app = create_app(library, examples=examples_path())
    server = make_server("127.0.0.1", 0, app.server, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> str:
    """Both themes, as the system asks for them."""
    asked: str = request.param
    return asked


@pytest.fixture(scope="session", name="contexts")
def _contexts(browser: Any) -> Iterator[Any]:
    """`contexts(theme, motion)`: one browser profile each, kept so that its cache stays warm."""
    made: dict[tuple[str, str], Any] = {}

    def context(theme: str, motion: str) -> Any:
        if (theme, motion) not in made:
            made[theme, motion] = browser.new_context(
                viewport={"width": 1440, "height": 1000}, color_scheme=theme, reduced_motion=motion
            )
        return made[theme, motion]

    yield context
    for context_ in made.values():
        context_.close()


@pytest.fixture(name="open_page")
def _open_page(contexts: Any, address: str) -> Iterator[Any]:
    """`open_page(path, theme)`: a page that fails the test if it says an error or asks a stranger."""
    pages: list[Any] = []
    problems: list[str] = []

    def opened(path: str, theme: str = "light", motion: str = "no-preference") -> Any:
        page = contexts(theme, motion).new_page()
        pages.append(page)
        page.on("console", lambda m: problems.append(m.text) if m.type in _LOUD else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda r: None if _ours(r.url, address) else problems.append(r.url))
        page.on(
            "response",
            lambda r: problems.append(f"{r.status} {r.url}") if r.status >= 400 else None,
        )
        page.goto(address + path)
        page.wait_for_selector("#page h1")
        return page

    yield opened
    for page in pages:
        page.evaluate("localStorage.clear()")
        page.close()
    assert problems == []


def _ours(url: str, address: str) -> bool:
    return url.startswith((address + "/", "data:", "blob:"))
