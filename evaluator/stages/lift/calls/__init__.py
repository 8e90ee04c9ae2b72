"""The calls of host code in one process: from two recordings of them to a plan for each kind of call."""
