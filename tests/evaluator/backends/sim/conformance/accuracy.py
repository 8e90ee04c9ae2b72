"""stub"""
import numpy as np
def within(form, given, gpu, simulated): return np.zeros(len(gpu), bool)
