"""Faster or smaller forms of the same mathematics."""
