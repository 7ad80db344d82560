"""State of suspended calls: their arguments, the snapshots of code, and journals of its calls."""
