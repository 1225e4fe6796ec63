"""Striped files in Python: file objects, and the `fsspec` file system `euphrates://`."""
