"""`python -m tune_tickets.cli`: the same as the console script."""

from tune_tickets.cli.app import main

main()
