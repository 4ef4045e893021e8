"""What searches leave behind: records, metrics, the objective, statistics, the results folder."""
