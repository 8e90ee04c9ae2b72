"""The GPUs of this machine: what they are, whether they are healthy, and what grading on them needs."""
