"""Small trials on a GPU: launched together, so that they share its waits."""
