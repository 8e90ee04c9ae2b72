"""What runs in the sandbox beside a Triton submission: it records, and launches nothing."""
