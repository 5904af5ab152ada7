"""Other programs that a run can work with: Ray, which plays it, and MLflow, which follows it."""
