"""Mail in: taken, stored, read in a process of its own, and acted upon."""
