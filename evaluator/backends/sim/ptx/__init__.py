"""PTX as values: read from text, and its control flow."""
