"""How runs are shown to people: numbers, the progress line, charts."""
