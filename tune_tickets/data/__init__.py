"""Labelled texts from the bundled reviews, a local file or the hub, in seeded splits that share no text."""
