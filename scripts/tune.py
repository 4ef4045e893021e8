"""`python scripts/tune.py EXPERIMENT.yaml [KEY=VALUE]...`: the verb `run` of the console script `tune-tickets`."""

import sys

from tune_tickets.cli.app import main

if __name__ == "__main__":
    main(["run", *sys.argv[1:]])
