"""How much more memory this process may take."""

import resource
from pathlib import Path

MEMINFO, CONTROL_GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def available_bytes() -> float:
    """Bytes that the machine, the control group and the process limit leave; infinite where the system does not say."""
    return min(_machine_bytes(), _control_group_bytes(), _process_limit_bytes())


def _machine_bytes() -> float:
    if not MEMINFO.exists():
        return float("inf")
    lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    return 1024 * float(lines["MemAvailable"].split()[0])


def _control_group_bytes() -> float:
    """Bytes left in the control group of a container or of a batch job."""
    limit, used = CONTROL_GROUP / "memory.max", CONTROL_GROUP / "memory.current"
    if not (limit.exists() and used.exists()) or limit.read_text().strip() == "max":
        return float("inf")
    return float(limit.read_text()) - float(used.read_text()) + _reclaimable_bytes()


def _reclaimable_bytes() -> float:
    """Bytes of the page cache of the control group that have not been read again, which the kernel frees when they are needed."""
    statistics = CONTROL_GROUP / "memory.stat"
    lines = statistics.read_text().splitlines() if statistics.exists() else []
    return next((float(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0.0)


def _process_limit_bytes() -> float:
    """Bytes of address space left under `ulimit -v`."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    status = Path("/proc/self/statm")
    if limit == resource.RLIM_INFINITY or not status.exists():
        return float("inf")
    return float(limit) - int(status.read_text().split()[0]) * resource.getpagesize()
