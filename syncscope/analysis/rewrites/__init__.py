"""Exact rewrites of the lines that wait, from their syntax trees.

A rewrite is a tuple of edits, empty where there is none. With all its edits applied a program
computes the same: values (but for rounding where the docstring says so, and random numbers,
which come from the same distribution), dtypes, devices, shapes, gradients. Checks that only
raise may raise later or no longer; the advice says so. Where that would depend on what the
source does not say, there is no rewrite and only the advice's text.
"""
