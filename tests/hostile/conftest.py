"""What tests of hostile surroundings share: typing a command, and a simulator at hand."""

from tests.cli.conftest import at_hand, rsso  # noqa: F401 - fixtures
