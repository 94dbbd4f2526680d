"""Laboratory: experiments that break or replace one choice of the paper, and their report."""
