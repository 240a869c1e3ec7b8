"""What a file holds, as rows of (section, key, value): the form that inspection prints and compares two files in."""
