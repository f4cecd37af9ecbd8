"""What is refused before any design is evaluated: costs without a process, and a search that is run as a sweep."""

import logging

import pytest

from dse.base import progress
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


def test_a_folder_of_results_is_named_as_such(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (folder / "small").mkdir()
    (folder / "small" / "front.nc").touch()
    assert entry.main(["check", "small"]) == 2
    assert capsys.readouterr().err == "'small' is a folder of results, which has no description; print them with 'dse show small'\n"


@pytest.mark.parametrize(
    ("arguments", "word", "suggestion"), [(["serach", "x"], "serach", "search"), (["list", "acelerators"], "acelerators", "accelerators")]
)
def test_misspelt_subcommands_and_kinds_are_suggested(arguments, word, suggestion, capsys):
    with pytest.raises(SystemExit, match="2"):
        entry.main(arguments)
    assert capsys.readouterr().err.rstrip().endswith(f"invalid choice: '{word}'; did you mean '{suggestion}'?")


def test_an_infeasible_search_names_the_least_power_of_any_design(search_file, folder, monkeypatch, capsys):
    """Least at the lower bandwidth: it is that of the feasible search with a looser limit."""
    (folder / "chip.yaml").write_text((folder / "chip.yaml").read_text() + "cost: {process: 7 nm}\n")
    monkeypatch.chdir(folder)
    text = search_file.read_text().replace("maximize: [performance]", "minimize: [area]")
    search_file.write_text(text.replace("area <= 800", "area <= 8"))
    assert entry.main(["search", "small.yaml"]) == 3
    least = capsys.readouterr().err.rsplit(" any design is ", 1)[1].strip()
    search_file.write_text(text)
    assert entry.main(["search", "small.yaml", "--force"]) == 0
    assert f"area: {least}\n" in capsys.readouterr().out


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_shown_on_terminals_only(monkeypatch, is_terminal):
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal, raising=False)
    progress.logger.setLevel(logging.INFO)
    assert progress.shows_progress() is is_terminal
    progress.logger.setLevel(logging.NOTSET)
