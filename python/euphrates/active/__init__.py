"""Active messages: each names a handler in another process, which runs it with the message.

A *short* message has eight words of 32 bits; `data` of up to 64 KiB is for its handler; `data` with
a place `to` is copied into a region of the other process before its handler runs. The handler of a
request replies once, declines, or does neither. What cannot be delivered returns to its sender,
with the reason.

>>> from euphrates import active
>>> token = active.new_token()
>>> server = active.Endpoint("server", token, listen="127.0.0.1:0")
>>> @server.handler(1)
... def add(token, message):
...     token.reply(1, sum(message.words))
>>> client = active.Endpoint("client", token)
>>> @client.reply_handler(1)
... def show(message):
...     print(message.words[0])
>>> peer = client.connect(server.address)
>>> client.request(peer, 1, 40, 2)
>>> while client.unsettled:
...     _ = server.poll() + client.poll()
42
>>> client.close(), server.close()
(None, None)
"""

from __future__ import annotations

from .._euphrates import new_token
from .endpoint import Endpoint, Region
from .messages import Message, ReplyToken, Returned

__all__ = ["Endpoint", "Message", "Region", "ReplyToken", "Returned", "new_token"]
