"""A verdict for people: as an HTML page, as a card in the terminal, as charts."""
