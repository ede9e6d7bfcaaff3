"""What weft costs, beside py-spy on the same program in the same run: `make bench`."""
