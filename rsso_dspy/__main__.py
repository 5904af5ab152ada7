"""``python -m rsso_dspy`` is the command ``rsso-dspy``."""

from rsso_dspy.cli import main

if __name__ == "__main__":
    main()
