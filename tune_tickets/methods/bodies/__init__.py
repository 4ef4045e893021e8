"""The code of the stages that all methods share. It imports torch; `methods.stages` does not."""
