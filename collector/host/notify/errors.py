"""What can be wrong with alerts before anything is sent. Each message is one line and shows no secret.

ValueError
    AlertConfigError      a file, key or variable of the configuration
    SecretError           a reference that leads nowhere
    WebhookError          an address that cannot be posted to
"""

from __future__ import annotations


class AlertConfigError(ValueError):
    """An alert configuration that cannot be used: file, key, value, rule."""


class SecretError(ValueError):
    """A reference to a secret that leads nowhere; the reference is named, never a value."""


class WebhookError(ValueError):
    """An address that cannot be used; its secret parts are not shown."""
