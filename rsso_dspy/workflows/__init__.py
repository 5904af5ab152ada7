"""What is done with several runs, or around one: reproduce, monitor, sweep, build a constitution."""
