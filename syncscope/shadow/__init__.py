"""The GPU that is not there."""
