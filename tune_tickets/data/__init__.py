"""Labelled texts: from a bundled corpus, a local file or the hub to seeded splits that share no text."""
