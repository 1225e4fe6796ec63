"""Tables of Delta Lake and Iceberg: libraries plan and commit, the engine does the I/O."""
