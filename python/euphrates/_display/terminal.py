"""The terminal line that shows the progress of a running flow."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

    from .progress import Progress

_LINE_SECONDS = 10.0
"""The interval between lines when the output is not a terminal."""


class Watcher:
    """The function to call with the progress of a running flow, or None; at the end, the terminal
    is as it was.
    """

    def __init__(self, progress: Any, name: str) -> None:
        self._line: _Line | None = None
        self.tell: Callable[[Progress], object] | None = None
        if callable(progress):
            self.tell = progress
        elif progress is False or (progress is None and not sys.stderr.isatty()):
            pass
        elif sys.stderr.isatty():
            self._line = _Line(sys.stderr, name)
            self.tell = self._line.tell
        else:
            self.tell = _plain(sys.stderr, name)

    def __enter__(self) -> Callable[[Progress], object] | None:
        return self.tell

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.clear()


class _Line:
    """One terminal line that is rewritten in place and erased at the end."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self.stream = stream
        self.name = name
        self.shown = False

    def tell(self, progress: Progress) -> None:
        # Slow to load, and not needed if the flow ends within 0.1 seconds.
        import shutil

        width = shutil.get_terminal_size().columns - 1
        text = f"{progress}  {_printable(self.name)}"[:width]
        self.stream.write(f"\r{text}\x1b[K")
        self.stream.flush()
        self.shown = True

    def clear(self) -> None:
        if self.shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


def _plain(stream: TextIO, name: str) -> Callable[[Progress], object]:
    last = time.monotonic()

    def tell(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _LINE_SECONDS:
            last = time.monotonic()
            print(f"{progress}  {_printable(name)}", file=stream, flush=True)

    return tell


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
