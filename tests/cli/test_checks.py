"""What is refused before any design is evaluated: costs without a process, and a search that is run as a sweep."""

import pytest

from dse.cli import entry

SEARCH = """axes:
  memory.dram.bandwidth: [1 TB/s, 2 TB/s]
search: {maximize: [performance], constraints: [area <= 800 mm^2], sampler: exhaustive}
"""


@pytest.fixture
def search_file(folder):
    path = folder / "small.yaml"
    path.write_text(path.read_text() + SEARCH)
    return path


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ("", "'chip' has no process, on which area, power and energy depend; add 'cost: {process: 7 nm}' (3 to 28 nm)"),
        ("cost: {process: 2 nm}\n", "'chip' has a process for which no circuit sizes are known; write one from 3 to 28 nm"),
    ],
)
def test_a_search_that_needs_an_area_is_refused_at_check_without_a_known_process(search_file, folder, capsys, cost, message):
    (folder / "chip.yaml").write_text((folder / "chip.yaml").read_text() + cost)
    assert entry.main(["check", str(search_file)]) == 2
    assert capsys.readouterr().err == f"{search_file}:2: accelerators.0: {message}\n"


def test_a_search_without_costs_needs_no_process(search_file, capsys):
    search_file.write_text(search_file.read_text().replace("constraints: [area <= 800 mm^2], ", ""))
    assert entry.main(["check", str(search_file)]) == 0


def test_a_search_is_not_run_as_a_sweep_into_its_own_folder(search_file, folder, monkeypatch, capsys):
    (folder / "chip.yaml").write_text((folder / "chip.yaml").read_text() + "cost: {process: 7 nm}\n")
    monkeypatch.chdir(folder)
    assert entry.main(["sweep", "small.yaml"]) == 2
    expected = (
        "small.yaml:9: search: 'small' is a search, not a sweep; run 'dse search small.yaml', or name the output of a sweep over its axes:"
    )
    assert capsys.readouterr().err.startswith(expected)
    assert not (folder / "small").exists()
    assert entry.main(["sweep", "small.yaml", "-o", "small_sweep"]) == 0
    assert (folder / "small_sweep" / "results.nc").exists()
