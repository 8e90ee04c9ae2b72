"""Supervised fine-tuning: kernels are graded and kept, and agents are tuned on them before they learn by trial."""
