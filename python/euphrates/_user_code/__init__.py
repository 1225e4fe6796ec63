"""User code: how functions, classes and flow files are found, sent, described and called."""
