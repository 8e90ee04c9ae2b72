"""What runs in the submission's own process, beside its code: nothing here decides anything, or knows an answer."""
