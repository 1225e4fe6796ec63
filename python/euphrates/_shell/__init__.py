"""The interactive shell of `euphrates sql`."""
