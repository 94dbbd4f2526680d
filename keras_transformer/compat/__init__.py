"""Every reach into the private parts of a library: one file per library, each reach tested."""
