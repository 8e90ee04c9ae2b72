"""`python -m assay`: the command `assay`."""

from evaluator.__main__ import main

if __name__ == "__main__":
    main()
