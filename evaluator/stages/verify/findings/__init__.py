"""What a fault, a race or undefined memory that a run showed means for the verdict, and in which words."""
