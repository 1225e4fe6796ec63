"""Programs and processes: the command line, workers, children of a worker, the studio."""
