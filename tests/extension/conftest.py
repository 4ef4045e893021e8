"""Extensions run on the real command line, as the integration tests do."""

from tests.integration.conftest import cli, environment, ray_folder, start

__all__ = ["cli", "environment", "ray_folder", "start"]
