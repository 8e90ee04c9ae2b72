"""Extensions of PyTorch, as `torch.utils.cpp_extension` builds them, against headers of ours instead of PyTorch's."""
