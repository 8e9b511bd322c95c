"""Dropping files onto Runs: chosen, dragged, folders; sent in slices, cancelled, refused, read, opened."""

from __future__ import annotations

import gzip
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

GOLDEN = Path(__file__).parents[1] / "golden" / "gloo_ddp"


def test_what_is_dropped_tells_its_quality_and_opens(open_page: Any, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "ranks.tar.gz", "w:gz") as archive:
        for rank in (0, 1):
            archive.add(GOLDEN / f"rank{rank}.json.gz", f"rank{rank}.json.gz")
    page = open_page("/runs")
    page.set_input_files("#runs-drop input", tmp_path / "ranks.tar.gz")
    page.wait_for_selector("#runs-progress .zs-pairs")
    said = page.inner_text("#runs-progress")
    assert "8,612 read, 0 repaired, 0 skipped, 0 lost" in said
    assert "0-1" in said
    page.click("#runs-progress a")
    page.wait_for_function("window.zsTimeline")
    page.evaluate("zsTimeline.ready.then(() => true)")
    assert page.evaluate("zsTimeline.count(0)") > 0


def test_what_is_dropped_and_is_no_trace_is_refused_in_a_sentence(
    open_page: Any, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("these are no spans")
    page = open_page("/runs")
    page.set_input_files("#runs-drop input", tmp_path / "notes.txt")
    page.wait_for_selector("#runs-progress .zs-failed")
    said = page.inner_text("#runs-progress")
    assert said.strip().startswith("'notes.txt' is text without a line of a known log")


def test_several_files_are_dropped_at_once_and_sent_in_slices(
    open_page: Any, tmp_path: Path
) -> None:
    # Over a slice: what is behind the last bracket of Kineto's JSON may be blank.
    padded = gzip.decompress((GOLDEN / "rank0.json.gz").read_bytes()) + b" " * 9 * 2**20
    (tmp_path / "rank0.json").write_bytes(padded)
    page = open_page("/runs")
    sent: list[str] = []
    page.on("request", lambda r: sent.append(r.url) if r.method == "PUT" else None)
    page.wait_for_selector("#runs-drop input", state="attached")
    page.evaluate(
        """([name, text]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([text], name));
          transfer.items.add(new File([text.replaceAll('"rank": 0', '"rank": 1')], "rank1.json"));
          document.querySelector("#runs-drop").dispatchEvent(
            new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
        }""",
        ["rank0.json", padded.decode()],
    )
    page.wait_for_selector("#runs-progress .zs-pairs")
    assert "0-1" in page.inner_text("#runs-progress")
    assert [url.rpartition("/")[2] for url in sent[:2]] == ["0?at=0", f"0?at={8 * 2**20}"]
    assert page.is_hidden("#runs-sending")
    assert page.is_enabled("#runs-drop input")


def test_a_folder_is_dropped_with_all_that_lies_in_it(open_page: Any, tmp_path: Path) -> None:
    for rank in (0, 1):
        place = tmp_path / "dropped" / f"rank{rank}" / "trace.json.gz"
        place.parent.mkdir(parents=True)
        place.write_bytes((GOLDEN / f"rank{rank}.json.gz").read_bytes())
    (tmp_path / "dropped" / "notes.txt").write_text("hello")
    (tmp_path / "dropped" / ".hidden").write_text("{}")
    page = open_page("/runs")
    page.wait_for_selector("#runs-drop input", state="attached")
    zone = page.locator("#runs-drop").bounding_box()
    at = {"x": zone["x"] + 50, "y": zone["y"] + 40}
    drag = {"items": [], "files": [str(tmp_path / "dropped")], "dragOperationsMask": 1}
    browser = page.context.new_cdp_session(page)
    for event in ("dragEnter", "dragOver", "drop"):
        browser.send("Input.dispatchDragEvent", {"type": event, **at, "data": drag})
    page.wait_for_selector("#runs-progress .zs-pairs")
    said = page.inner_text("#runs-progress")
    assert "Imported as 'dropped'" in said
    assert "0-1" in said
    assert said.count("left out") == 1
    assert "'notes.txt' left out" in said


def test_the_drop_zone_is_reached_and_opened_by_the_keyboard(open_page: Any) -> None:
    page = open_page("/runs")
    page.on("filechooser", lambda _: None)  # from now on the browser asks us, not its user
    page.wait_for_load_state("networkidle")
    page.focus("#runs-drop input")
    with page.expect_file_chooser() as choosing:
        page.keyboard.press("Enter")
    assert choosing.value.is_multiple()
    with page.expect_file_chooser():
        page.click("#runs-drop b")


def test_sending_is_cancelled(open_page: Any, tmp_path: Path) -> None:
    (tmp_path / "big.json").write_bytes(b" " * 20 * 2**20)
    page = open_page("/runs")
    page.route("**/api/uploads/*/0?at=*", lambda _: None)  # the network stands still
    page.set_input_files("#runs-drop input", tmp_path / "big.json")
    page.wait_for_selector("#runs-sent >> text=Sending big.json: 0 % of 21 MB")
    page.click("#runs-cancel")
    page.wait_for_selector("#runs-sent >> text=Nothing was sent.")
    assert page.is_hidden("#runs-sending")


def test_who_leaves_while_sending_leaves_nothing_behind(open_page: Any, tmp_path: Path) -> None:
    (tmp_path / "left.json").write_bytes(b" " * 20 * 2**20)
    kept = "zerosim-uploads-*/*/*/left.json"
    page = open_page("/runs")
    page.route("**/api/uploads/*/0?at=*", lambda _: None)
    page.set_input_files("#runs-drop input", tmp_path / "left.json")
    page.wait_for_selector("#runs-sent >> text=Sending left.json")
    assert len(list(Path(tempfile.gettempdir()).glob(kept))) == 1
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    page.wait_for_selector("#page h1")
    for _ in range(50):
        if not list(Path(tempfile.gettempdir()).glob(kept)):
            break
        page.wait_for_timeout(100)
    assert list(Path(tempfile.gettempdir()).glob(kept)) == []
