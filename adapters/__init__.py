"""One folder per chain family, the same file names in each, and what they share."""
