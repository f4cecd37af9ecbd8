"""Memory that this process may take: the page cache of its control group counts as free where it is not in use."""

from dse.base import available_memory


def test_the_inactive_page_cache_of_a_container_is_available(tmp_path, monkeypatch):
    """A limit of 30,000 bytes, of which 20,000 are used: 12,000 by files that were read once."""
    monkeypatch.setattr(available_memory, "CONTROL_GROUP", tmp_path)
    monkeypatch.setattr(available_memory, "MEMINFO", tmp_path / "missing")
    for name, text in (("max", "30000\n"), ("current", "20000\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert available_memory.available_bytes() == 10_000
    (tmp_path / "memory.stat").write_text("anon 8000\nfile 12000\nactive_file 0\ninactive_file 12000\n")
    assert available_memory.available_bytes() == 22_000
