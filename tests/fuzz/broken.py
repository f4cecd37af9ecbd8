"""What a fuzzer may meet, one sort of failure each, for the test of the harness (no `CASES`: it is no fuzzer of the product)."""

import os
import signal
import time
from pathlib import Path
from random import Random


def case(random: Random, folder: Path) -> str:
    number = int((folder.parent / "number").read_text()) if (folder.parent / "number").exists() else 0
    (folder.parent / "number").write_text(str(number + 1))
    (folder / "input").write_text(str(number))
    if number == 1:
        raise ZeroDivisionError("division by zero")
    if number == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    while number == 3:
        pass
    if number == 4:
        held = b"\1" * 600_000_000
        time.sleep(60)
        return str(len(held))
    return "accepted"
