"""Faults that the rig injects: perturbers, failing system calls, and slow network clients."""
