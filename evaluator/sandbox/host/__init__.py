"""Sandboxes of this machine's own kernel: bubblewrap's namespaces, or a process with limits."""
