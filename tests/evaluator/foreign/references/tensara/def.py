from typing import Any

import torch
from problem import Problem


class damped_product(Problem):
    """A product with a vector, damped."""

    is_exact = False
    parameters = (
        {"name": "matrix", "type": "float", "pointer": True, "const": True},
        {"name": "vector", "type": "float", "pointer": True, "const": True},
        {"name": "damping", "type": "float", "pointer": False, "const": False},
        {"name": "result", "type": "float", "pointer": True, "const": False},
        {"name": "rows", "type": "size_t", "pointer": False, "const": False},
        {"name": "columns", "type": "size_t", "pointer": False, "const": False},
    )

    def __init__(self):
        super().__init__(name="damped-product")

    def reference_solution(self, matrix: torch.Tensor, vector: torch.Tensor, damping: float) -> torch.Tensor:
        with torch.no_grad(), torch.autocast("cuda", enabled=False, dtype=matrix.dtype):
            return torch.mv(matrix, vector) * damping

    def generate_test_cases(self) -> list[dict[str, Any]]:
        dtype = self.param_dtype(0)
        sizes = [(48, 96), (64, 32)]
        cases = []
        for rows, columns in sizes:
            seed = Problem.get_seed(f"{self.name}_{rows}_{columns}")
            cases.append(
                {
                    "name": f"{rows} x {columns}",
                    "create_inputs": lambda rows=rows, columns=columns, seed=seed: (
                        *(
                            lambda g: (
                                torch.rand((rows, columns), device="cuda", dtype=dtype, generator=g) * 2.0 - 1.0,
                                torch.softmax(torch.rand(columns, device="cuda", dtype=dtype, generator=g), 0),
                            )
                        )(torch.Generator(device="cuda").manual_seed(seed)),
                        0.5,
                    ),
                }
            )
        return cases

    def verify_result(self, expected_output: torch.Tensor, actual_output: torch.Tensor):
        return torch.allclose(actual_output, expected_output, rtol=1e-2), {}

    def get_extra_params(self, test_case: dict[str, Any]) -> list[Any]:
        return []
