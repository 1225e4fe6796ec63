"""Random flows over random tables, compared with what others say of them."""
