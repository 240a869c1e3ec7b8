"""Text that people read: results that show themselves."""
