"""Takes logs apart into fields, and counts lines per hour and status."""

import euphrates as eu

lines = eu.scan("logs/*.log", format="lines").select(line="cast(line as text)")
fields = lines.select(hour="left(line, 13)", status=r"regexp_extract(line, ' (\d+)$', 1)")
fields.group_by("hour", "status").agg(rows="count()").sort("hour", "status").save("counts.csv")
