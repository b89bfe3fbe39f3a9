# SPDX-License-Identifier: Apache-2.0
"""Who sent a message on the bus, and whether that one may: Ed25519 signatures over every call.

Whoever has credentials for RabbitMQ can put any text on a queue. A receiver believes a call only
if its sender's private key signed it, its sender may make such calls, it was meant for this
receiver, it is recent, and it has not come before. Who has which key: `keyring.py`. Who may call
what: `senders.py`. What is signed: `envelope.py`.
"""
