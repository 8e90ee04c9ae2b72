"""The kernels that a small model is warmed up with: a few styles for each of many problems, and what goes wrong.

All were written for this purpose; none comes from a data set. The styles of a problem stand in an order: the plainest
first.
"""
