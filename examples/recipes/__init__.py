"""How the models are trained, measured, drawn and exported: one `Recipe` for each kind of data."""
