"""Errors of the host in Chinese: the sentence and the hint, by code and reason."""

from typing import Final

from bollard.cli.text.zh_Hans.reasons import actions, http, models, plugins, resources, runs, storage

REASONS: Final[dict[str, tuple[str, str]]] = {
    **actions.REASONS,
    **http.REASONS,
    **models.REASONS,
    **plugins.REASONS,
    **resources.REASONS,
    **runs.REASONS,
    **storage.REASONS,
}
