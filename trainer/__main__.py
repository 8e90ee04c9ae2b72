"""`python -m trainer` is `assay-train`."""

from trainer.cli.main import main

if __name__ == "__main__":
    main(prog_name="assay-train")
