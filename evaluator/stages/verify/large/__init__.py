"""Large trials on the simulator: contents in pieces, comparison by sampled elements or blocks."""
