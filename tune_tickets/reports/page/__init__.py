"""The report of a search as one page: content, HTML, Markdown."""
