"""Reports of small results, and a headless Chromium that records errors and requests."""

import os
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import dse
from dse.cli.entry import main
from dse.sweeping import store
from tests.conftest import described

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
AXES = """
axes:
  memory.dram.bandwidth: [0.5 TB/s, 1 TB/s, 2 TB/s]
  units.tensor.peak.fp16: [50 TFLOP/s, 100 TFLOP/s]
"""


def write_results(folder: Path) -> Path:
    """The results of the small sweep over two axes."""
    described(folder)
    spec = folder / "small.yaml"
    spec.write_text(spec.read_text() + AXES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store.write(dse.sweep(spec), folder / "results.nc")
    return folder / "results.nc"


def write_report(*arguments: str | Path) -> Path:
    """The report at the last argument, of all others."""
    *results, out = arguments
    assert main(["report", *map(str, results), "-o", str(out)]) == 0
    return Path(out)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def report(results: Path) -> Path:
    return write_report(results, results.with_name("report.html"))


@dataclass
class OpenPage:
    """A page in the browser, with what went wrong in it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, file: Path) -> Any:
        self.page.goto(f"file://{file}")
        self.page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length > 0")
        return self.page


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


@pytest.fixture
def browser(chromium: Any) -> Iterator[OpenPage]:
    """A page that must end without errors and without a request beyond its own file."""
    page = chromium.new_page(viewport={"width": 1400, "height": 1000})
    opened = OpenPage(page)
    page.on("pageerror", lambda error: opened.errors.append(str(error)))
    page.on("console", lambda message: opened.errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: opened.requests.append(request.url))
    yield opened
    page.close()
    assert opened.errors == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "blob:"))] == []
