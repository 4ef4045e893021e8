"""The results of searches: records, metrics, the objective, statistics, the results folder."""
