"""Safe readers of foreign files: they run no code from a file, and limit its size."""
