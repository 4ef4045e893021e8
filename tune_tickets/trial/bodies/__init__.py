"""The code of each stage, one module per stage with a function `run`; imported only where the work is done."""
