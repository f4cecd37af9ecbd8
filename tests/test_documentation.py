"""README.md and the chapters in docs/: links lead somewhere, every chapter is reached, and commands are commands."""

import re
from pathlib import Path

import pytest

from dse.cli import entry

TOP = Path(__file__).parents[1]
PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`[^`]+`")


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text())


def links(page: Path) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", SPAN.sub("", prose(page))) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings: lower case, without punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead(page: Path) -> list[str]:
    found = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file_and_a_heading(page):
    assert dead(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "there.md").write_text("# One's own (now)\n")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md#ones-own-now) [b](there.md#own) [c](gone.md) [d](#e) [f](https://g.h/i) `[j](k)`\n```\n# e\n```\n")
    assert dead(page) == ["there.md#own", "gone.md", "#e"]


def test_every_chapter_and_figure_is_linked():
    reached = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links(page)}
    assert {path.resolve() for path in (TOP / "docs").iterdir()} <= reached


def verbs(page: Path) -> set[str]:
    """What follows `dse` in code blocks and in code between backticks, in tables as in prose."""
    code = FENCED.findall(page.read_text()) + [" ".join(span.split()) for span in SPAN.findall(prose(page))]
    return {verb for text in code for verb in re.findall(r"(?<![\w.-])dse ([a-z]\w*)", text)}


@pytest.mark.parametrize("verb", sorted({verb for page in PAGES for verb in verbs(page)}))
def test_every_verb_named_is_one_of_the_command_line(verb, capsys):
    with pytest.raises(SystemExit) as ended:
        entry.main([verb, "--help"])
    assert ended.value.code == 0, capsys.readouterr().err


def test_the_readme_names_every_verb(capsys):
    with pytest.raises(SystemExit):
        entry.main(["--help"])
    told = re.findall(r"^    (\w+)(?: |$)", capsys.readouterr().out, re.MULTILINE)
    assert {"sweep", "trace"} <= set(told) <= verbs(PAGES[0])
