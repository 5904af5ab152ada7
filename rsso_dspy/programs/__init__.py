"""dspy.Modules made of signatures. `agent.py` is THE program, `methods.py` the table of methods."""
