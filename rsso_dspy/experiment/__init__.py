"""A run: its protocol and plan, who plays it, and the limits it keeps."""
