"""Cleanup of what the rig makes: a ledger, a guardian process, and one undo function per kind."""
