"""Tables, plots and pages about finished searches."""
