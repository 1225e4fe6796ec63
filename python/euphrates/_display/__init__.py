"""Output for people: formatted numbers, the progress line, charts."""
