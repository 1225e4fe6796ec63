"""Tools of development, which derive files from the source."""
