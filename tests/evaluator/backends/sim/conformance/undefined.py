"""stub"""
import numpy as np
def undefined(form, given): return np.zeros(len(given), bool)
