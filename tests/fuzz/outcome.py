"""Runs the product on an input and demands that it accepts or refuses it cleanly."""

import io
import re
from collections.abc import Callable, Collection
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from dse.base.errors import InputError
from dse.cli import entry

LONGEST_MESSAGE = 100_000


def run_command(*arguments: str | Path, names: str | Path, folder: Path, codes: Collection[int] = (0, 2)) -> str:
    """Run `dse ARGUMENTS` in this process: "accepted" for exit code 0, "refused" for 2, else "code N" if that is one of `codes`.

    A refusal says why on stderr, naming `names` (a file, or part of its name), prints nothing else and leaves no new file below
    `folder`.

    Raises:
        AssertionError: the outcome is not a clean one.
    """
    before = _files(folder)
    code, out, err = captured([str(argument) for argument in arguments])
    assert code in codes, f"exit code {code}: {err[-2000:]}"
    if code == 2:
        assert str(names) in err, f"the message does not name '{names}': {err[:2000]}"
        assert not out or arguments[0] == "check", f"a refusal prints {out[:500]!r}"
        assert _files(folder) == before, f"a refusal leaves {sorted(map(str, _files(folder) - before))}"
    assert "Traceback" not in err, err[-2000:]
    assert len(err) <= LONGEST_MESSAGE, f"{len(err)} characters on stderr: {err[:500]!r}"
    return {0: "accepted", 2: "refused"}.get(code, f"code {code}")


def captured(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `dse ARGUMENTS`, run in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = entry.main(arguments)
        except SystemExit as stop:  # argparse refuses the arguments themselves
            code = stop.code if isinstance(stop.code, int) else 1
    return code, _text(out), _text(err)


def call(function: Callable[..., Any], *arguments: Any, names: str | Path = "") -> str:
    """Call the Python interface: "accepted" if it returns, "refused" for a InputError whose message has `names`."""
    try:
        function(*arguments)
    except InputError as error:
        message = str(error)
        assert str(names) in message, f"the message does not name '{names}': {message[:2000]}"
        assert len(message) <= LONGEST_MESSAGE, f"a message of {len(message)} characters: {message[:500]!r}"
        return "refused"
    return "accepted"


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode() if isinstance(stream.buffer, io.BytesIO) else ""


def _files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def check_refusal(message: str) -> None:
    """One line a problem, each with what is wrong and what to do, none of them in the words of a library."""
    lines = [line for line in message.splitlines() if line and not line.startswith(("warning:", "\rcounting", "counting"))]
    assert lines, "refused without a message"
    for line in lines:
        if re.fullmatch(r"\.\.\. and \d+ more problems", line):
            continue
        assert "; " in line, f"no fix: {line!r}"
    for foreign in ("Traceback", "pydantic", "validation error", "For further information", "errors.pydantic.dev"):
        assert foreign not in message, message
