"""The one error of settings."""


class SettingsError(Exception):
    """The settings cannot be used; the text says which key and what to do."""
