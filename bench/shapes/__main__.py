"""`python -m bench.shapes`."""

from bench.shapes.run import main

if __name__ == "__main__":
    main()
