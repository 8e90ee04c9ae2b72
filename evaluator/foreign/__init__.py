"""Problems of others: a file that computes an answer with PyTorch becomes a `Problem` like our own.

The file is untrusted: it runs in a sandbox (`inside/`), and what leaves it is data.
"""
