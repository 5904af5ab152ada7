"""The held-out run: presets, a plan of units, the executor that plays them, the store that keeps them."""
