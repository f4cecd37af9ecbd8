"""The page of `dse explore` in headless Chromium: sliders evaluate, and the design is saved; nothing leaves the machine."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dse
from tests.html_report.conftest import write_results

TOP = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def address(tmp_path, chromium):
    """The address of a server of the small sweep, which saves to `tmp_path`."""
    pytest.importorskip("panel", reason="Panel is not installed")
    results, port = write_results(tmp_path), free_port()
    command = [sys.executable, "-m", "dse.cli", "explore", str(results), "-o", str(tmp_path), "--port", str(port)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(TOP)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as server:
        for _ in range(600):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, server.stderr.read().decode()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/"
        server.terminate()
        assert "Traceback" not in server.stderr.read().decode()


def test_a_slider_changes_the_results_and_the_design_is_saved(browser, address, tmp_path):
    page, browser.allowed = browser.page, (address, "blob:")
    page.goto(address)
    page.wait_for_selector("text=as described")
    assert "latency" in page.inner_text("table")
    rows = page.locator("table tr").all_inner_texts()
    assert all(row.split()[-1] == "1" for row in rows[1:])
    slider = page.locator(".noUi-handle").nth(0)
    slider.focus()
    page.keyboard.press("PageDown")
    page.wait_for_selector("td:not(:text-is('1')):near(td:text-is('latency'))")
    page.get_by_role("button", name="Save as YAML").click()
    page.wait_for_selector("text=Saved:")
    saved = dse.load_accelerator(tmp_path / "explored.yaml")
    assert saved.value("units.tensor.peak.fp16") < 100e12
    page.get_by_role("button", name="Save as YAML").click()
    page.wait_for_selector("text=Not saved:")
