"""Stages computed once, anywhere, under the hash of all they depend on. Knows nothing of tickets."""
