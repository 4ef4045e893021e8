"""The report of a search: one page for a browser and one in Markdown, made of the same content."""
