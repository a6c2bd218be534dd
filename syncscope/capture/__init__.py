"""Collectors for a real GPU, one file each; they only append."""
