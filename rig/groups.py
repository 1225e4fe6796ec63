"""A control group of processes: the base of a CPU and of a memory limit."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from . import cgroups
from .cleanup.ledger import ledger
from .cleanup.marked import marked
from .features import require
from .tools import RigError

Entered = TypeVar("Entered", bound="Group")


class Group:
    """A control group within a `with`; on exit the processes still in it are killed."""

    controller: ClassVar[str]
    feature: ClassVar[str]

    def __init__(self) -> None:
        self._group: Path | None = None
        self._version = 0
        self._made = contextlib.ExitStack()

    def limits(self, version: int) -> dict[str, str]:
        """File names and contents of the group's limits, for that version of control groups."""
        raise NotImplementedError

    def __enter__(self: Entered) -> Entered:
        require(self.feature)
        controller, book = cgroups.need(self.controller), ledger()
        self._version = controller.version
        with contextlib.ExitStack() as made:
            # In version 2 the group is a sibling of the caller, so that disk limits apply to it
            # too.
            above = cgroups.made_for_caller(controller.own) or controller.root
            group = above / f"{cgroups.PREFIX}{book.name()}"
            made.callback(book.undo, book.record("group", path=str(group)))
            if controller.version == 2:
                cgroups.enable(group.parent, self.controller)
            group.mkdir()
            self._group = group
            self._set()
            self._made = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._group = None
        self._made.close()

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command that enters this group and then executes `command` in the same process."""
        if self._group is None:
            raise RigError(f"this {type(self).__name__} is not there: use it in a `with`")
        return cgroups.joining([self._group], list(command))

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Starts a program in this group; `options` are those of `subprocess.Popen`."""
        return marked(self._made, self.inside(command), **options)

    def _set(self) -> None:
        """Writes the limits if the group exists."""
        if self._group is not None:
            for name, text in self.limits(self._version).items():
                cgroups.write(self._group / name, text)
