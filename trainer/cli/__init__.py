"""The command `assay-train`."""
