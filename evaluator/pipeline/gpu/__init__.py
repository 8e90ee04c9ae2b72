"""The referee of a GPU: its process, what it does there, and how a grader asks it."""
