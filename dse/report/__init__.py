"""Text reports: what the catalogue holds (`listing`) and what a pattern costs to store and where it runs (`pattern`)."""
