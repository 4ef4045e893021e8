"""What a notebook calls, and what verbs of the command line share with it. Public names stand in `tune_tickets`."""
