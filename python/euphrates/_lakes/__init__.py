"""Tables of Delta Lake and Iceberg: a library plans and commits, the engine moves the bytes."""
