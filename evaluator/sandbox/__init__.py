"""What untrusted work runs in: the interface in sandbox.py, one module for each kind of isolation, and their proof."""
