"""Long randomised runs: each prints its seed and one line of summary."""
