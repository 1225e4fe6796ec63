"""Adds files that no earlier run has processed to a folder."""

import euphrates as eu

eu.scan("in/*.csv", only_new="daily").save("all/", mode="append")
