import ctypes

import torch
from core.challenge_base import ChallengeBase, OutTensor, RandnTensor


class Challenge(ChallengeBase):
    name = "Gains of rows"
    atol = 1e-4
    rtol = 1e-4
    num_gpus = 1
    access_tier = "free"

    def reference_impl(self, signal, weights, gains, rows, columns, factor):
        assert signal.dtype == weights.dtype == torch.float32
        torch.mv(signal, weights, out=gains)
        gains.mul_(factor)

    def get_solve_signature(self):
        return {
            "signal": (ctypes.POINTER(ctypes.c_float), "in"),
            "weights": (ctypes.POINTER(ctypes.c_float), "in"),
            "gains": (ctypes.POINTER(ctypes.c_float), "out"),
            "rows": (ctypes.c_int, "in"),
            "columns": (ctypes.c_int, "in"),
            "factor": (ctypes.c_float, "in"),
        }

    def _case(self, rows, columns):
        return {
            "signal": torch.empty(rows, columns, device="cuda", dtype=torch.float32).uniform_(-2.0, 2.0),
            "weights": RandnTensor((columns,)),
            "gains": OutTensor((rows,)),
            "rows": rows,
            "columns": columns,
            "factor": 0.25,
        }

    def generate_example_test(self):
        return self._case(2, 3)

    def generate_functional_test(self):
        return [self._case(5, 7), self._case(33, 100)]

    def generate_performance_test(self):
        rows, columns = 1 << 15, 4096
        return self._case(rows, columns)
