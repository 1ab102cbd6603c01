"""How each chat writes a message: pure functions from messages to a payload within the service's documented limits."""
