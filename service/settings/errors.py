"""The error of invalid settings."""


class SettingsError(Exception):
    """Invalid settings; the text names the key and the remedy."""
