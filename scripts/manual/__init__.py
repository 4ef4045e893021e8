"""Hooks that mkdocs calls while it builds the site: equations, the YAML reference, pages missing in the navigation."""
