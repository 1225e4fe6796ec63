"""Numbers formatted for people."""

from __future__ import annotations


def seconds_text(seconds: float) -> str:
    """`2.1 ms`, `1.23 s`, `345 s`."""
    if seconds < 0.1:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:.0f} s"


def bytes_text(size: float) -> str:
    """`12.3 MB`, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} PB"


def count_text(number: int) -> str:
    """`12,345,678`."""
    return f"{number:,}"
