"""Labels of the nodes of the Ray cluster that tests share."""

RAY_LABELS = [{"zone": "a"}, {"zone": "b", "disk": "fast"}]
