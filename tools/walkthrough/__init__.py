"""Generator of the numbers in docs/walkthrough.md."""
