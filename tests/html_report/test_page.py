"""The page of `dse report` in headless Chromium: every chart has its marks, and brushing, tables and comparisons work.

Marks and texts are compared with the dataset, never pixels. The fixture `browser` fails on an error or a request of the page.
"""

import json
import re

import numpy as np
import pytest

from dse.cli.entry import main
from dse.explaining.shapley import make_game
from dse.sweeping import store
from tests.html_report.conftest import write_report


def texts(page, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_inner_texts()]


def count(page, selector: str) -> int:
    return page.locator(selector).count()


def test_the_first_screen_answers_in_sentences(browser, report):
    page = browser.open(report)
    answer = page.inner_text(".answer")
    assert re.search(r"net, batch \d+: the fastest of all results that lose at most 1 point of accuracy is ", answer)
    assert re.search(r"It is \d\.\d+x as fast as the dense network on the same design, with accuracy 75", answer)
    assert "What limits it: " in answer
    assert "Faster, but of unknown accuracy: blocky block:8x8 75%" in answer
    assert "speed of light" in page.inner_text("#answer")


def test_every_chart_has_a_mark_for_each_of_its_values(browser, report, results):
    page, dataset = browser.open(report), store.read(results)
    measured = dataset.sel(batch=16).isel(variant=dataset.accuracy.notnull().values)
    assert count(page, "#pareto .scatterlayer .point") == measured.latency.size + 1  # a ring around the one that is shown
    assert count(page, "#sparsity-roofline .scatterlayer .point") == int(dataset.accuracy.notnull().sum())
    assert count(page, "#roofline .scatterlayer .point") == 4  # layers with FLOPs
    assert count(page, "#roofline .scatterlayer .trace path.js-line") >= 2
    assert count(page, "#layers .barlayer .point") == 2 * 5  # dense and pruned
    assert count(page, "#tornado .barlayer .point") % 2 == 0
    assert count(page, "#tornado .barlayer .point") > 0
    assert count(page, "#heat-map .heatmaplayer image") == 1
    assert count(page, "#waterfall .waterfalllayer .point") >= 3


def test_hovering_names_the_result_with_its_numbers(browser, report):
    page = browser.open(report)
    page.locator("#pareto").scroll_into_view_if_needed()
    box = page.locator("#pareto .scatterlayer .trace").nth(1).locator(".point").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#pareto .hoverlayer .hovertext")
    hover = page.locator("#pareto .hoverlayer").first.text_content()
    assert "latency: " in hover
    assert "speedup: " in hover


def test_brushing_filters_the_table_and_can_be_cleared(browser, report):
    page = browser.open(report)
    page.locator("#pareto").scroll_into_view_if_needed()
    before = int(re.search(r"(\d+) of \d+ results", page.inner_text("#table"))[1])
    boxes = [point.bounding_box() for point in page.locator("#pareto .scatterlayer .point").all()]
    right = max(box["x"] for box in boxes)
    area = page.locator("#pareto .nsewdrag").bounding_box()
    page.mouse.move(right - 2, area["y"] + area["height"] - 2)
    page.mouse.down()
    page.mouse.move(right + 12, area["y"] + 2, steps=5)
    page.mouse.up()
    page.wait_for_function(f"!document.getElementById('table').innerText.startsWith('{before} ')")
    after = int(re.search(r"(\d+) of \d+ results", page.inner_text("#table"))[1])
    assert 0 < after < before
    page.click("#clear")
    page.wait_for_function(f"document.getElementById('table').innerText.startsWith('{before} ')")


def test_many_points_are_drawn_by_webgl_and_brushed(browser, folder, tmp_path):
    spec = folder / "small.yaml"
    axes = "axes: {memory.dram.bandwidth: {from: 1 TB/s, to: 4 TB/s, steps: 50}, units.tensor.peak.fp16: {from: 50 TFLOP/s, to: 99 TFLOP/s, steps: 50}}"
    spec.write_text(spec.read_text().replace("methods: all", "methods: [semi]").replace("[1, 16]", "[1, 2]") + axes + "\n")
    assert main(["sweep", str(spec), "-o", str(tmp_path / "many.nc")]) == 0
    page = browser.open(write_report(tmp_path / "many.nc", tmp_path / "many.html"))
    page.select_option("#filters select >> nth=0", "")
    assert page.evaluate("document.getElementById('pareto').data.map((trace) => trace.type)") == ["scattergl"] * 3
    assert count(page, "#pareto .gl-container canvas") > 0
    page.locator("#pareto").scroll_into_view_if_needed()
    area = page.locator("#pareto .nsewdrag").bounding_box()
    page.mouse.move(area["x"] + 3, area["y"] + area["height"] - 3)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] / 2, area["y"] + area["height"] / 3, steps=5)
    page.mouse.up()
    page.wait_for_function("states[0].brushed !== null")
    assert 0 < page.evaluate("states[0].brushed.size") < 5000
    assert f"{page.evaluate('states[0].brushed.size')} of 5000 results" in page.inner_text("#table")


def test_the_table_sorts_filters_and_turns_pages(browser, report, results):
    page, dataset = browser.open(report), store.read(results)
    page.select_option("#filters select >> nth=0", "")
    assert re.match(rf"{dataset.latency.size} results", page.inner_text("#table"))
    page.click("#points th button:has-text('speedup')")
    column = texts(page, "#points thead th").index("speedup ▲")
    rows = [float(text) for text in texts(page, f"#points tbody td:nth-child({column + 1})")]
    np.testing.assert_allclose(rows, np.sort(dataset.speedup.values.ravel())[: len(rows)], rtol=1e-3)
    assert page.inner_text("#page") == f"page 1 of {-(-dataset.latency.size // 15)}"
    page.click("text=Next")
    assert page.inner_text("#page").startswith("page 2 of")


def test_the_parts_of_a_comparison_add_up_to_the_difference(browser, report, results):
    page, dataset = browser.open(report), store.read(results)
    sizes = [dataset.sizes[dim] for dim in dataset.latency.dims]
    pair = [0, dataset.latency.size - 1]  # they differ in everything but the accelerator and the dtype
    expected = dataset.speedup.transpose(*dataset.latency.dims).values.ravel()
    result = page.evaluate(f"attribute(sections[0], 'speedup', {pair[0]}, {pair[1]})")
    assert len(result["parts"]) == sum(size > 1 for size in sizes)
    assert [result["from"], result["to"]] == pytest.approx(expected[pair].tolist(), rel=1e-6)
    assert sum(part for _, part in result["parts"]) == pytest.approx(result["to"] - result["from"], rel=1e-9)
    swapped = page.evaluate(f"attribute(sections[0], 'speedup', {pair[1]}, {pair[0]})")
    assert [part for _, part in swapped["parts"]] == pytest.approx([-part for _, part in result["parts"]], rel=1e-9)
    one = page.evaluate(
        "sections[0].points.find((p) => gridPosition(sections[0], p).filter((v, d) => v !== gridPosition(sections[0], 0)[d]).length === 1)"
    )
    assert len(page.evaluate(f"attribute(sections[0], 'latency', 0, {one})")["parts"]) == 1


def test_the_parts_of_the_page_are_those_of_the_package(browser, report):
    page, values = browser.open(report), np.random.default_rng(0).normal(size=16)
    parts = page.evaluate("(values) => shapleyValues(4, (mask) => values[mask])", values.tolist())
    np.testing.assert_allclose(parts, make_game(4).parts(values), atol=1e-12)


def test_causes_lead_from_the_ideal_speedup_to_the_predicted_one(browser, report):
    page = browser.open(report)
    causes = page.evaluate("Object.values(sections[0].details).flat().map((each) => each.causes).filter((each) => each)")
    assert causes
    for each in causes:
        assert each["from"] + sum(part for _, part in each["parts"]) == pytest.approx(each["to"], rel=1e-9)
    assert count(page, "#causes .waterfalllayer .point") >= 3
    assert "Why not faster: " in page.inner_text(".answer")


def test_rows_are_chosen_with_the_keyboard(browser, report):
    page = browser.open(report)
    button = page.locator("#points tbody tr").nth(3).locator("button").nth(1)
    point = page.locator("#points tbody tr").nth(3).get_attribute("data-point")
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator("tr.shown").get_attribute("data-point") == point
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").endswith("as B")
    assert page.inner_text("#shown") == page.evaluate(f"sections[0].labels[{point}]")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"


def test_sources_and_specification_are_in_the_page(browser, report, results):
    page, dataset = browser.open(report), store.read(results)
    assert "memory.dram.bandwidth" in page.text_content(".sources")
    assert "a test" in page.text_content(".sources")
    assert page.text_content("pre") == dataset.attrs["spec"]
    assert dataset.attrs["spec_sha256"] in page.text_content("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_contrast_with_the_page_in_both_schemes(browser, report, scheme):
    """Contrast of at least 4.5 between text and page (WCAG 2.2, 1.4.3), and of 3 between marks and page (1.4.11)."""
    browser.page.emulate_media(color_scheme=scheme)
    page = browser.open(report)
    colours = {
        name: page.evaluate(f"colour('{name}')")
        for name in ("ink", "soft", "paper", "panel", "blue", "orange", "green", "pink", "yellow", "sky", "grey")
    }
    for name, least in {"ink": 4.5, "soft": 4.5, "blue": 3, "orange": 3, "green": 3, "pink": 3, "yellow": 3, "sky": 3, "grey": 3}.items():
        assert all(contrast(colours[name], colours[back]) >= least for back in ("paper", "panel")), name
    assert page.evaluate("document.querySelector('#pareto .xtitle').style.fill") == page.evaluate(
        "(() => { const d = document.createElement('i'); d.style.fill = colour('ink'); return d.style.fill })()"
    )


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of '#rrggbb' (WCAG 2.2)."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def test_printing_opens_the_tables_and_hides_the_controls(browser, report):
    page = browser.open(report)
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert not page.locator("#swap").is_visible()
    assert page.locator("#roofline-numbers table").is_visible()
    assert len(page.pdf()) > 10_000


def test_several_datasets_have_tabs_and_an_overview(browser, results, tmp_path):
    other = tmp_path / "other.nc"
    store.write(store.read(results).isel(batch=[0]), other)
    page = browser.open(write_report(results, other, tmp_path / "both.html"))
    assert texts(page, "#tabs button") == ["small (1)", "small (2)"]
    assert count(page, "#overview .scatterlayer .trace") == 2
    page.click("#tabs button >> nth=1")
    assert count(page, "#pareto .scatterlayer .point") > 0
    assert texts(page, "#tabs button[aria-current=true]") == ["small (2)"]


def test_a_front_of_a_sweep_is_drawn_without_a_grid(browser, results, tmp_path, capsys):
    assert main(["pareto", str(results), "--minimize", "latency", "accuracy_drop", "-o", str(tmp_path / "front.nc")]) == 0
    page = browser.open(write_report(tmp_path / "front.nc", tmp_path / "front.html"))
    front = store.read(tmp_path / "front.nc")
    assert page.evaluate("sections[0].front.length") == front.sizes["point"]
    pairs = page.evaluate("Object.values(sections[0].attributions)")
    assert pairs
    for pair in pairs:
        assert pair["from"] + sum(part for _, part in pair["parts"]) == pytest.approx(pair["to"], rel=1e-9)
    assert count(page, "#waterfall .waterfalllayer .point") >= 3
    assert count(page, "#heat-map") == 0


def test_a_search_shows_its_front_and_exact_differences(browser, folder, tmp_path, capsys):
    spec = {
        "name": "found", "accelerators": ["./chip.yaml"], "workloads": {"./net": {"methods": "all"}}, "batch": [1], "dtype": "fp16",
        "model": {"dense_fallback": True},
        "axes": {"memory.dram.bandwidth": {"from": "1 TB/s", "to": "4 TB/s", "steps": 4}, "units.tensor.peak.fp16": ["50 TFLOP/s", "100 TFLOP/s"]},
        "search": {"maximize": ["performance"], "minimize": ["latency"], "sampler": "exhaustive"},
    }  # fmt: skip
    (folder / "found.yaml").write_text(json.dumps(spec))
    assert main(["search", str(folder / "found.yaml"), "-o", str(tmp_path / "found")]) == 0
    page = browser.open(write_report(tmp_path / "found", tmp_path / "found.html"))
    assert "The best of 8 designs" in page.inner_text(".answer")
    pairs = page.evaluate("Object.values(sections[0].attributions)")
    for pair in pairs:
        assert sum(part for _, part in pair["parts"]) == pytest.approx(pair["to"] - pair["from"], rel=1e-9)
    assert count(page, "#roofline .scatterlayer .point") == 4


def test_a_validation_shows_predicted_against_measured(browser, tmp_path):
    rows = ["set,split,device,kernel,family,dtype,quantity,shape,sparsity,measured,sol,calibrated,interval"]
    rows += [f"s,shapes,gpu,dense,gemm,fp16,time,{n}x{n}x{n},0,{n * 1e-6},{n * 0.5e-6},{n * 1.1e-6}," for n in (64, 128, 256)]
    (tmp_path / "kernels.csv").write_text("\n".join(rows) + "\n")
    page = browser.open(write_report(tmp_path / "kernels.csv", tmp_path / "v.html"))
    assert "sol 50%, calibrated 10%" in page.inner_text(".answer")
    assert count(page, "#validation .scatterlayer .point") == 3
