"""Data sets of Hugging Face: `hf://` addresses become those of a web server, which `scan` reads."""

from __future__ import annotations

import os
from typing import Any

from ..errors import ResourceError, UsageError

SCHEME = "hf://"

_EXTENSIONS = (".parquet", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".arrow")
_PACKED = (".gz", ".bz2", ".zst")


def with_addresses(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a `scan` with addresses of the web in place of those of the hub.

    The token of `HF_TOKEN`, if that is set, is named and not copied. Needs `huggingface_hub`.
    """
    path = config.get("path")
    paths = path if isinstance(path, list) else [path]
    of_hub = [one for one in paths if isinstance(one, str) and one.startswith(SCHEME)]
    if not of_hub:
        return config
    if len(of_hub) < len(paths):
        raise UsageError(
            "files of the hub and others are read together", remedy="scan each, and use `union`"
        )
    found = [address for one in of_hub for address in addresses_of(one)]
    changed = {**config, "path": found[0] if len(found) == 1 else found}
    if os.environ.get("HF_TOKEN") and "storage_options" not in config:
        changed["storage_options"] = {"bearer_token": "env:HF_TOKEN"}
    return changed


def addresses_of(path: str) -> list[str]:
    """The addresses of the files that an address of the hub names: a file, a pattern, a folder."""
    hub = _library()
    plain = path.removeprefix(SCHEME)
    try:
        files = hub.HfFileSystem()
        if any(character in plain for character in "*?["):
            names = files.glob(plain)
        elif files.isdir(plain):
            names = [name for name in files.find(plain) if _is_data(name)]
        else:
            names = [plain] if files.exists(plain) else []
        found = [str(files.url(name)) for name in sorted(names)]
    except FileNotFoundError as error:
        raise UsageError(str(error), place=path, remedy="check the address") from error
    except OSError as error:
        raise ResourceError(
            f"the hub cannot be asked: {error}", place=path, remedy="check network and token"
        ) from error
    if not found:
        raise UsageError("the hub has no such file", place=path, remedy="check the address")
    return found


def _is_data(name: str) -> bool:
    base = name.rsplit("/", 1)[-1]
    for packed in _PACKED:
        base = base.removesuffix(packed)
    return base.endswith(_EXTENSIONS) and not base.startswith((".", "_"))


def _library() -> Any:
    """The package, which is optional."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise UsageError(
            f"{SCHEME} addresses need the package {error.name}",
            remedy="pip install huggingface_hub",
        ) from None
    return huggingface_hub
