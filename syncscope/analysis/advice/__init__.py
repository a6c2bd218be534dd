"""Rules that name the cause of a wait or a copy, and say what to write instead.

Each module holds the rules of one kind, in the order in which they are asked.
"""
