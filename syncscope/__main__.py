"""`python -m syncscope` is the same as `syncscope`."""

from syncscope.cli import main

main()
