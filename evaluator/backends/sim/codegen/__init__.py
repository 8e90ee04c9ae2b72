"""From PTX to C++ that runs a warp at a time. `python -m` this package lists the instructions that it knows."""
