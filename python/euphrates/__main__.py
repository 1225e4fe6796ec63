"""`python -m euphrates`: the command line, for whoever knows the Python and not the script."""

from ._cli import main

if __name__ == "__main__":
    main()
