# problem: relu
# attack: a result in float16
# expect: invalid_submission
# because: the problem's output is float32
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x).half()
