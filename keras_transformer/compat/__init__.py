"""Private reach into libraries, one file per library."""
