"""Active messages: a process keeps counters, and another adds to them; unknown ones return."""

import multiprocessing
from collections import Counter

from euphrates import active

ADD, TOTAL, UNKNOWN = 1, 2, 99  # numbers of handlers
STOP = 3


def serve(token: str, addresses: "multiprocessing.SimpleQueue[str]") -> None:
    """Keeps counters until it is told to stop."""
    counts: Counter[bytes] = Counter()
    server = active.Endpoint("server", token, listen="127.0.0.1:0")

    @server.handler(ADD)
    def add(reply: active.ReplyToken, message: active.Message) -> None:
        counts[message.data] += message.words[0]
        reply.reply(TOTAL, counts[message.data], data=message.data)

    @server.handler(STOP)
    def stop(reply: active.ReplyToken, message: active.Message) -> None:
        server.stop()

    addresses.put(str(server.address))
    server.serve()
    server.close()


if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    token, addresses = active.new_token(), spawn.SimpleQueue()
    process = spawn.Process(target=serve, args=(token, addresses))
    process.start()
    with active.Endpoint("client", token) as client:
        client.reply_handler(TOTAL)(lambda total: print(total.data.decode(), total.words[0]))
        client.returned_handler(lambda returned: print("returned:", returned.reason))
        peer = client.connect(addresses.get())
        for word in (b"fish", b"reed", b"fish"):
            client.request(peer, ADD, 5, data=word)
        client.request(peer, UNKNOWN)
        client.request(peer, STOP)
    process.join()
