"""An Arrow C stream implemented in ctypes, which counts its callbacks."""

from __future__ import annotations

import ctypes as c
from typing import Any


class _Schema(c.Structure):
    pass


class _Array(c.Structure):
    pass


class _Stream(c.Structure):
    pass


_RELEASE = c.CFUNCTYPE(None, c.c_void_p)
_Schema._fields_ = [
    ("format", c.c_char_p),
    ("name", c.c_char_p),
    ("metadata", c.c_char_p),
    ("flags", c.c_int64),
    ("n_children", c.c_int64),
    ("children", c.POINTER(c.POINTER(_Schema))),
    ("dictionary", c.c_void_p),
    ("release", _RELEASE),
    ("private_data", c.c_void_p),
]
_Array._fields_ = [
    ("length", c.c_int64),
    ("null_count", c.c_int64),
    ("offset", c.c_int64),
    ("n_buffers", c.c_int64),
    ("n_children", c.c_int64),
    ("buffers", c.POINTER(c.c_void_p)),
    ("children", c.POINTER(c.POINTER(_Array))),
    ("dictionary", c.c_void_p),
    ("release", _RELEASE),
    ("private_data", c.c_void_p),
]
_GET_SCHEMA = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(_Schema))
_GET_NEXT = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(_Array))
_GET_ERROR = c.CFUNCTYPE(c.c_void_p, c.c_void_p)
_Stream._fields_ = [
    ("get_schema", _GET_SCHEMA),
    ("get_next", _GET_NEXT),
    ("get_last_error", _GET_ERROR),
    ("release", _RELEASE),
    ("private_data", c.c_void_p),
]
_DESTROY = c.CFUNCTYPE(None, c.c_void_p)
_new = c.pythonapi.PyCapsule_New
_new.restype = c.py_object
_new.argtypes = [c.c_void_p, c.c_char_p, _DESTROY]
_pointer = c.pythonapi.PyCapsule_GetPointer
_pointer.restype = c.c_void_p
_pointer.argtypes = [c.c_void_p, c.c_char_p]
_NAME = b"arrow_array_stream"


class CountedStream:
    """Batches of one column `n` of 64-bit integers, all zero."""

    def __init__(self, batches: int, rows: int, fails_at: int | None = None) -> None:
        self.batches = batches
        self.rows = rows
        self.fails_at = fails_at
        self.opened = self.released = self.given = self.batches_released = 0
        self.error = c.create_string_buffer(b"the well is dry")
        self.values = (c.c_int64 * rows)()
        # C pointers refer to these objects: they must stay alive.
        self.kept: list[Any] = []
        self.callbacks = [
            _RELEASE(self._nothing),
            _RELEASE(self._release_batch),
            _RELEASE(self._release_child),
            _RELEASE(self._release_stream),
            _GET_SCHEMA(self._get_schema),
            _GET_NEXT(self._get_next),
            _GET_ERROR(self._get_error),
            _DESTROY(self._destroy),
        ]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        self.opened += 1
        self.next = 0
        _, _, _, release, get_schema, get_next, get_error, destroy = self.callbacks
        stream = _Stream(get_schema, get_next, get_error, release, None)
        self.kept.append(stream)
        return _new(c.addressof(stream), _NAME, destroy)

    def _get_schema(self, _: int, out: Any) -> int:
        child = _Schema(b"l", b"n", None, 2, 0, None, None, self.callbacks[0], None)
        children = (c.POINTER(_Schema) * 1)(c.pointer(child))
        self.kept += [child, children]
        out[0] = _Schema(b"+s", b"", None, 0, 1, children, None, self.callbacks[0], None)
        return 0

    def _get_next(self, _: int, out: Any) -> int:
        if self.next == self.fails_at:
            return 5
        if self.next == self.batches:
            out[0] = _Array()
            return 0
        self.next += 1
        self.given += 1
        buffers = (c.c_void_p * 2)(None, c.addressof(self.values))
        child = _Array(self.rows, 0, 0, 2, 0, buffers, None, None, self.callbacks[2], None)
        children = (c.POINTER(_Array) * 1)(c.pointer(child))
        outer = (c.c_void_p * 1)(None)
        self.kept += [buffers, child, children, outer]
        out[0] = _Array(self.rows, 0, 0, 1, 1, outer, children, None, self.callbacks[1], None)
        return 0

    def _get_error(self, _: int) -> int:
        return c.addressof(self.error)

    def _nothing(self, schema: int) -> None:
        _Schema.from_address(schema).release = _RELEASE()

    def _release_batch(self, array: int) -> None:
        structure = _Array.from_address(array)
        assert structure.release, "released twice"
        structure.release = _RELEASE()
        self.batches_released += 1

    def _release_child(self, array: int) -> None:
        _Array.from_address(array).release = _RELEASE()

    def _release_stream(self, stream: int) -> None:
        structure = _Stream.from_address(stream)
        assert structure.release, "released twice"
        structure.release = _RELEASE()
        self.released += 1

    def _destroy(self, capsule: int) -> None:
        stream = _Stream.from_address(_pointer(capsule, _NAME))
        if stream.release:
            stream.release(c.addressof(stream))
