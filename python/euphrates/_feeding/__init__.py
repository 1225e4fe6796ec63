"""Feeds programs with the batches of a flow: consumers at their own pace, tensors, resuming."""
