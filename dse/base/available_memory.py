"""How much memory this process may still take."""

import resource
from pathlib import Path

MEMINFO, GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def available_bytes() -> float:
    """Bytes that the machine, the control group and the limit of the process leave; infinite where the system does not say."""
    return min(_machine(), _group(), _limit())


def _machine() -> float:
    if not MEMINFO.exists():
        return float("inf")
    lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    return 1024 * float(lines["MemAvailable"].split()[0])


def _group() -> float:
    """What the control group of a container or of a batch job leaves."""
    most, used = GROUP / "memory.max", GROUP / "memory.current"
    if not (most.exists() and used.exists()) or most.read_text().strip() == "max":
        return float("inf")
    return float(most.read_text()) - float(used.read_text())


def _limit() -> float:
    """What `ulimit -v` leaves."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    status = Path("/proc/self/statm")
    if most == resource.RLIM_INFINITY or not status.exists():
        return float("inf")
    return float(most) - int(status.read_text().split()[0]) * resource.getpagesize()
