# problem: relu
# attack: a text that does not define what is called
# expect: invalid_submission
# because: there is no ModelNew
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
