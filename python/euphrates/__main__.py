"""`python -m euphrates`: the command line, run by this Python."""

from ._processes.cli import main

if __name__ == "__main__":
    main()
