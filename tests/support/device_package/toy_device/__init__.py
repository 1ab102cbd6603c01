"""A device as another package would bring it."""
