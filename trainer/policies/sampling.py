"""The nucleus that tokens are drawn from (Holtzman et al. 2020), the same for a run's servers and for models here."""

import torch


def nucleus(log_probs: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Log-probabilities [rows, vocabulary] of the likeliest tokens that make up each row's share, -inf of all others.

    `shares`: float [rows]; a row with 1 stays as it is.
    """
    below = (shares < 1)[:, None]
    if not below.any():
        return log_probs
    ordered, order = torch.sort(log_probs, dim=-1, descending=True)
    # The token that crosses the line still belongs to the nucleus.
    before = torch.cumsum(ordered.exp(), dim=-1) - ordered.exp()
    outside = (before >= shares[:, None]) & below
    kept = log_probs.masked_fill(torch.zeros_like(outside).scatter(-1, order, outside), -torch.inf)
    return torch.where(below, torch.log_softmax(kept, dim=-1), log_probs)
