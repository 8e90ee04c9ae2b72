"""What untrusted work runs in: the interface (sandbox.py), a module for each kind of isolation, and the proof."""
