"""From PTX to C++ that runs a warp at a time."""
