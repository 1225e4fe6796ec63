"""Applies a model that is loaded once per worker; rows that it refuses go to a file."""

from models import Model

import euphrates as eu

model = eu.map(Model, args=["weights.json"], rows_per_call=32, on_error="skip", rejects="bad.json")
eu.query("texts.parquet").then(model).save("scores.parquet")
