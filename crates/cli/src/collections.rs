//! `ls`, `describe`, `verify`, `rm`: collections and their catalog.
