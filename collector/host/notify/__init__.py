"""Tells people what was found: messages, their look in each chat, routes, the outbox and its one leased sender.

`message` is what is said, `services` how each chat writes it (pure), `routes` where it goes, `outbox` what still has to
go out (a fold over the lake's `deliveries`), `sender` the only part that opens a connection.
"""
