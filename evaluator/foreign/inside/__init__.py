"""What runs in the sandbox beside a file of someone else. It decides nothing, and imports nothing else of ours."""
