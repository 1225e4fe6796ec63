"""Nested-strided views of striped files against plain arrays."""

from __future__ import annotations

import io
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import euphrates as eu
from striped_cases import make_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path, 6)


def random_view(choose: random.Random, size: int) -> tuple[list[int], np.ndarray]:
    """The numbers of a view within `size` bytes, and the offsets of its bytes."""
    length = choose.choice([1, 7, 3_240, 100_000])
    extent, levels = length, []
    for _ in range(choose.randrange(4)):
        stride = extent + choose.choice([0, 1, 5_000, 2_000_000])
        count = choose.randrange(1, 5)
        if stride * (count - 1) + extent > size:
            break
        levels += [stride, count]
        extent += stride * (count - 1)
    start = choose.randrange(size - extent + 1)
    offsets = np.arange(start, start + length)
    for stride, count in zip(levels[::2], levels[1::2], strict=True):
        offsets = np.concatenate([offsets + stride * time for time in range(count)])
    return [start, length, *levels], offsets


def test_views_read_and_write_as_plain_arrays_do(home: Path) -> None:
    choose = random.Random(5)
    content = np.frombuffer(choose.randbytes(20_000_000), np.uint8).copy()
    with eu.open_striped("f", "wb", home=home) as file:
        file.write(content)
    for _ in range(4):
        with eu.open_striped("f", "r+b", home=home) as file:
            for _ in range(6):
                numbers, offsets = random_view(choose, content.size)
                view = file.view(*numbers)
                assert view.size == offsets.size
                at = choose.randrange(offsets.size)
                count = choose.randrange(offsets.size - at + 1)
                assert view.pread(count, at) == content[offsets[at : at + count]].tobytes()
                new = np.frombuffer(choose.randbytes(count), np.uint8)
                assert view.pwrite(new, at) == count
                content[offsets[at : at + count]] = new
        with eu.open_striped("f", home=home) as file:
            for _ in range(12):
                numbers, offsets = random_view(choose, content.size)
                at = choose.randrange(offsets.size)
                read = file.view(*numbers).pread(-1, at)
                assert read == content[offsets[at:]].tobytes(), numbers
            assert file.read() == content.tobytes()


def test_view_of_a_file_with_a_lost_disk_is_restored(home: Path) -> None:
    content = random.Random(6).randbytes(30_000_000)
    with eu.open_striped("f", "wb", home=home) as file:
        file.write(content)
    shutil.rmtree(home.parent / "d3")
    with eu.open_striped("f", home=home) as file:
        dense = file.view(1, 1000, 2000, 14_000).pread()
        assert dense == b"".join(content[at : at + 1000] for at in range(1, 28_000_000, 2000))
        sparse = file.view(5, 9, 3_000_000, 9).pread()
        assert sparse == b"".join(content[at : at + 9] for at in range(5, 27_000_000, 3_000_000))
        assert file.damages


def test_view_that_is_written_extends_a_file_with_zeros_between(home: Path) -> None:
    with eu.open_striped("f", "wb", home=home) as file:
        file.view(2, 2, 5, 3).pwrite(b"aabbcc")
        with pytest.raises(io.UnsupportedOperation):
            file.view(2, 2, 5, 3).pread()
    with eu.open_striped("f", home=home) as file:
        assert file.read() == b"\0\0aa\0\0\0bb\0\0\0cc"
        with pytest.raises(io.UnsupportedOperation):
            file.view(2, 2, 5, 3).pwrite(b"x")


def test_view_or_request_beyond_the_end_is_a_usage_error(home: Path) -> None:
    with eu.open_striped("f", "wb", home=home) as file:
        file.write(bytes(100))
        view = file.view(0, 10, 20, 5)
        for data, at in [(b"x" * 51, 0), (b"x", 50), (b"xx", 49)]:
            with pytest.raises(eu.UsageError, match="ends behind it"):
                view.pwrite(data, at)
        assert view.pwrite(b"", 50) == 0
    with eu.open_striped("f", home=home) as file:
        for numbers in [(91, 10), (0, 10, 31, 4), (200, 1)]:
            with pytest.raises(eu.UsageError, match="behind the end of the file at 100"):
                file.view(*numbers)
        with pytest.raises(eu.UsageError, match="ends behind it"):
            file.view(0, 10, 20, 5).pread(2, 49)
    with eu.open_striped("f", "r+b", home=home) as file:
        assert file.view(0, 10, 31, 4).pwrite(b"y" * 20) == 20
        with pytest.raises(eu.UsageError, match="behind the end"):
            file.view(0, 10, 31, 4).pread()


@pytest.mark.parametrize(
    "numbers",
    [(0, 0), (0, 5, 4, 2), (0, 5, 5), (0, 5, 5, 0), (-1, 5), (0, 2.5), (0, 1, 1 << 63, 4)],
)
def test_description_of_no_view_is_a_usage_error(home: Path, numbers: tuple[int, ...]) -> None:
    with eu.open_striped("f", "wb", home=home) as file:
        with pytest.raises(eu.UsageError):
            file.view(*numbers)
        file.abandon()
