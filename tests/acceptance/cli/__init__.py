"""The `gateway` command as an operator meets it: bad input first, and then what it prints."""
