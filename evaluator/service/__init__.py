"""The service: the grader behind REST, with a store that loses nothing, a queue and workers."""
