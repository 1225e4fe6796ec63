"""Skips tests where the rig lacks a feature of the machine."""

from __future__ import annotations

import pytest

import rig


def needs(*wanted: str) -> pytest.MarkDecorator:
    why = rig.missing(*wanted)
    return pytest.mark.skipif(why is not None, reason=why or "")
