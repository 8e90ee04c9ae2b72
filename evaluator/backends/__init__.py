"""Where compiled kernels run: behind one small interface, a simulator on the CPU or a GPU."""
