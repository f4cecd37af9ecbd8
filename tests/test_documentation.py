"""README.md, CONTRIBUTING.md and docs/: links lead somewhere, commands exist, and examples run and print what the page shows.

A fenced block with a title is written to a file of that name and checked, `python` blocks are executed, and the commands of `console`
blocks are run and their output compared; a `text` block below a `python` block is what that prints. All blocks of a page share a folder and their Python
names. `<!-- not executed: REASON -->` above a block leaves it out. `...` in an expected output stands for any text.
"""

import doctest
import re
import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from yamlcore import CoreLoader

import dse
from dse.cli import entry
from dse.cli.completion import subcommand_parsers
from dse.schema.accelerator import Accelerator
from dse.schema.sweep import SweepSpec

TOP = Path(__file__).parents[1]
README = TOP / "README.md"
PAGES = [README, *sorted(TOP.glob("CONTRIBUTING.md")), *sorted((TOP / "docs").glob("**/*.md"))]
FENCED = re.compile(
    r"^(?:<!-- (?P<comment>.*?) -->\n)?```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$", re.S | re.M
)
SPAN = re.compile(r"`[^`]+`")
SHELLS = ("console", "bash", "sh")


def name(page: Path) -> str:
    return str(page.relative_to(TOP)) if page.is_relative_to(TOP) else page.name


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text())


def links(page: Path) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", SPAN.sub("", prose(page))) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """As GitHub and MkDocs make them of headings (lower case, without punctuation, hyphens for spaces)."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    dead = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_to_a_file_and_a_heading(page):
    assert dead_links(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "there.md").write_text("# One's own (now)\n")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md#ones-own-now) [b](there.md#own) [c](gone.md) [d](#e) [f](https://g.h/i) `[j](k)`\n```\n# e\n```\n")
    assert dead_links(page) == ["there.md#own", "gone.md", "#e"]


def test_the_changelog_has_no_relative_links():
    """The site shows it in another folder."""
    assert links(TOP / "CHANGELOG.md") == []


@pytest.mark.parametrize("nav", sorted((TOP / "docs").rglob(".nav.yml")), ids=name)
def test_the_navigation_names_every_page_and_folder_beside_it(nav):
    entries = [next(iter(entry.values())) if isinstance(entry, dict) else entry for entry in yaml.safe_load(nav.read_text())["nav"]]
    beside = {path.name for path in nav.parent.iterdir() if path.suffix == ".md" or any(path.glob("*.md"))}
    assert "*" in entries or beside == set(entries)


def test_every_page_notebook_and_figure_is_linked():
    linked = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links(page)}
    assert {path.resolve() for pattern in ("*.md", "*.png", "*.ipynb") for path in (TOP / "docs").rglob(pattern)} <= linked


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    title: str | None
    line: int
    executed: bool


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            language=match["language"],
            text=match["text"],
            title=match["title"],
            line=text[: match.start("text")].count("\n") + 1,
            executed=not (match["comment"] or "").startswith("not executed:"),
        )
        for match in FENCED.finditer(text)
    ]


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command after a `$`, and the output below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.replace("\\\n", " ").partition("\n")
        yield command, output


def assert_output(expected: str, printed: str, place: str) -> None:
    shown = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    assert doctest.OutputChecker().check_output(expected, shown, doctest.ELLIPSIS), f"{place} prints\n{shown}\nand not\n{expected}"


def has_examples(page: Path) -> bool:
    return any(block.executed and (block.title or block.language in ("python", "console")) for block in blocks(page))


@pytest.mark.parametrize("page", [page for page in PAGES if has_examples(page)], ids=name)
def test_the_examples_of_a_page_run_and_print_what_it_shows(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names, printed = {"__name__": "example"}, ""
    warnings.simplefilter("ignore", dse.ModelWarning)
    for block in (block for block in blocks(page) if block.executed):
        place = f"{name(page)}:{block.line}"
        if block.title:
            (tmp_path / block.title).write_text(block.text)
        elif block.language == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
            printed = capsys.readouterr().out
        elif block.language == "text":
            assert_output(block.text, printed, place)
        elif block.language == "console":
            for command, output in commands(block.text):
                program, *arguments = shlex.split(command)
                assert program == "dse", f"{place}: only dse is run here, not '{command}'"
                code = entry.main(arguments)
                captured = capsys.readouterr()
                assert code == 0, captured.err
                assert_output(output, captured.out, f"{place}: {command}")
    for path in tmp_path.glob("*.yaml"):
        assert entry.main(["check", str(path)]) == 0, capsys.readouterr().err


def schema_of(described: dict[str, Any]) -> dict[str, Any]:
    return (SweepSpec if "workloads" in described else Accelerator).model_json_schema()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_described_files_pass_their_json_schema(page):
    for block in blocks(page):
        if block.title and block.title.endswith(".yaml"):
            described = yaml.load(block.text, Loader=CoreLoader)
            assert list(jsonschema.Draft202012Validator(schema_of(described)).iter_errors(described)) == [], block.title


@pytest.mark.parametrize(("expected", "fails"), [("3\n", False), ("4\n", True), ("...\n", False)])
def test_an_output_that_is_not_printed_is_found(expected, fails):
    if fails:
        with pytest.raises(AssertionError, match="page:1 prints"):
            assert_output(expected, "3\n", "page:1")
    else:
        assert_output(expected, "3\n", "page:1")


def subcommands(page: Path) -> set[str]:
    """What follows `dse` in code blocks and in code between backticks, in tables as in prose."""
    code = [block.text for block in blocks(page)] + [" ".join(span.split()) for span in SPAN.findall(prose(page))]
    return {subcommand for text in code for subcommand in re.findall(r"(?<![\w.-])dse ([a-z]\w*)", text)}


def help_text(subcommand: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `--help` prints of a subcommand; of a group, with that of its members."""
    members = [name for name in subcommand_parsers(entry.build_parser()) if name.startswith(f"{subcommand} ")]
    for words in ([subcommand], *(member.split() for member in members)):
        with pytest.raises(SystemExit) as ended:
            entry.main([*words, "--help"])
        assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("subcommand", sorted({subcommand for page in PAGES for subcommand in subcommands(page)}))
def test_every_subcommand_named_exists(subcommand, capsys):
    assert help_text(subcommand, capsys)


def options(text: str) -> set[tuple[str, str]]:
    """Each subcommand and option of the commands in a block or a span."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    called = [called for line in lines for called in re.findall(r"(?<![\w.-])dse ([a-z]\w*)([^|;&#)`]*)", line)]
    return {(subcommand, option) for subcommand, rest in called for option in re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", rest)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_option_of_a_command_exists(page, capsys):
    code = [block.text for block in blocks(page) if block.language in SHELLS] + [span.strip("`") for span in SPAN.findall(prose(page))]
    for subcommand, option in sorted({found for text in code for found in options(text)}):
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", help_text(subcommand, capsys)), f"dse {subcommand} {option}"


def test_the_readme_and_the_reference_name_every_subcommand(capsys):
    with pytest.raises(SystemExit):
        entry.main(["--help"])
    known = set(re.findall(r"^    (\w+)(?: |$)", capsys.readouterr().out, re.MULTILINE))
    assert {"sweep", "trace"} <= known <= subcommands(README) & subcommands(TOP / "docs" / "reference" / "command-line.md")
