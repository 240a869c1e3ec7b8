"""The content of a file as rows (section, key, value), for display and for comparison of two files."""
