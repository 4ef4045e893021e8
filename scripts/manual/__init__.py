"""What mkdocs calls while it builds the site of docs/: equations, the YAML reference, pages without a place."""
