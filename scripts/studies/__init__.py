"""Studies: questions about methods, answered by runs over several seeds; one module each."""
