"""Parses amounts and rates: "64MB", "20 MiB/s", or a plain number of bytes."""

from __future__ import annotations

import re

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def amount(text: str | int | float) -> int:
    """Bytes, from a number or text such as "64MB"."""
    if isinstance(text, (int, float)):
        return positive(int(text), text)
    match = re.fullmatch(r"\s*([0-9.]+)\s*([KMG]I?)?B?\s*", text, re.IGNORECASE)
    try:
        bytes_ = int(float(match[1]) * UNITS[(match[2] or "").upper()]) if match else 0
    except ValueError:
        bytes_ = 0
    return positive(bytes_, text)


def rate(text: str | int | float | None) -> int | None:
    """Bytes a second, from a number or text such as "5.45MB/s" or "1Gbit/s"; None is no limit."""
    if text is None:
        return None
    if not isinstance(text, str):
        return amount(text)
    size = text.strip().removesuffix("/s")
    if re.search(r"[KMG]i?b$", size):
        raise ValueError(f"bits or bytes: {text!r}? (say 1Gbit/s or 125MB/s)")
    if size.endswith("bit"):
        return positive(amount(size.removesuffix("bit")) // 8, text)
    return amount(size)


def positive(bytes_: int, text: object) -> int:
    if bytes_ <= 0:
        raise ValueError(f"not an amount above zero: {text!r} (say 64MB, 20MiB/s or a number)")
    return bytes_
