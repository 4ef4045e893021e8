"""The Python interface. Import the public names from `tune_tickets`; the command line uses the same functions."""
