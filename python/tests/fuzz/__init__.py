"""Random flows over random tables, compared with other engines."""
