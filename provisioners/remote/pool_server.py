#!/usr/bin/env python3
"""Small pool of remote GPUs, as an example of the protocol and for tests.  pool_server.py --gpus 2 --cert CERT --key KEY [--port PORT] [--token-file FILE]

README.md defines the protocol. Leases are kept in memory."""
import argparse
import http.server
import json
import pathlib
import ssl
import threading
import time
import urllib.parse


class Pool:
    """GPUs and their leases. Thread-safe."""

    def __init__(self, gpus, host):
        self.endpoints = [f"{host}:{7000 + i}" for i in range(gpus)]
        self.leases = {}  # key -> lease
        self.mutex = threading.Lock()

    def expire(self):
        now = time.monotonic()
        self.leases = {key: lease for key, lease in self.leases.items() if lease["ends"] > now}

    def acquire(self, key, body):
        with self.mutex:
            self.expire()
            content = {name: body.get(name) for name in ("owner", "device", "amounts")}
            known = self.leases.get(key)
            if known and known["content"] != content:
                return 409, {"message": f"lease {key} exists with other content"}
            if known:
                known["ends"] = time.monotonic() + body["leaseSeconds"]
                return 200, {"endpoint": known["endpoint"]}
            gpus = [amount for name, amount in (body.get("amounts") or {}).items() if name.endswith("/gpu")]
            if gpus not in ([], ["1"]):
                return 422, {"message": f"a lease is for one GPU, not for {gpus[0]}"}
            used = {lease["endpoint"] for lease in self.leases.values()}
            free = [endpoint for endpoint in self.endpoints if endpoint not in used]
            if not free:
                return 507, {"message": f"all {len(self.endpoints)} GPUs are leased"}
            self.leases[key] = {"content": content, "endpoint": free[0], "ends": time.monotonic() + body["leaseSeconds"], "renewals": 0}
            return 201, {"endpoint": free[0]}

    def renew(self, key, body):
        with self.mutex:
            self.expire()
            lease = self.leases.get(key)
            if not lease or lease["content"]["owner"] != body.get("owner"):
                return 404, {"message": f"no lease {key}"}
            lease["ends"] = time.monotonic() + body["leaseSeconds"]
            lease["renewals"] += 1
            return 200, {"endpoint": lease["endpoint"]}

    def release(self, key, owner):
        with self.mutex:
            lease = self.leases.get(key)
            if not lease or lease["content"]["owner"] != owner:
                return 404, {"message": f"no lease {key}"}
            del self.leases[key]
            return 204, None

    def keys(self, owner):
        with self.mutex:
            self.expire()
            mine = {key: lease for key, lease in self.leases.items() if lease["content"]["owner"] == owner}
            return 200, {"keys": sorted(mine), "renewals": {key: lease["renewals"] for key, lease in mine.items()}}


def handler_of(pool, token):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10

        def log_message(self, *_):
            pass

        def reply(self, code, answer):
            text = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            if code != 204:
                self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def body(self):
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            seconds = body.get("leaseSeconds")
            if not body.get("owner") or not isinstance(seconds, int) or seconds < 1:
                raise ValueError("owner and leaseSeconds are required")
            return body

        def serve(self):
            if token and self.headers.get("Authorization") != f"Bearer {token}":
                return self.reply(401, {"message": "the token is not valid"})
            url = urllib.parse.urlsplit(self.path)
            owner = urllib.parse.parse_qs(url.query).get("owner", [""])[0]
            parts = url.path.strip("/").split("/")
            try:
                if self.command == "GET" and parts == ["v1", "leases"]:
                    return self.reply(*pool.keys(owner))
                if parts[:2] == ["v1", "leases"] and len(parts) == 3 and self.command == "PUT":
                    return self.reply(*pool.acquire(parts[2], self.body()))
                if parts[:2] == ["v1", "leases"] and len(parts) == 3 and self.command == "DELETE":
                    return self.reply(*pool.release(parts[2], owner))
                if parts[:2] == ["v1", "leases"] and parts[3:] == ["renew"] and self.command == "POST":
                    return self.reply(*pool.renew(parts[2], self.body()))
            except ValueError as error:
                return self.reply(422, {"message": str(error)})
            return self.reply(404, {"message": f"no such resource: {url.path}"})

        do_GET = do_PUT = do_POST = do_DELETE = serve

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 = any; it is printed")
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--token-file")
    options = parser.parse_args()
    token = pathlib.Path(options.token_file).read_text(encoding="utf-8").strip() if options.token_file else ""
    server = http.server.ThreadingHTTPServer((options.host, options.port), handler_of(Pool(options.gpus, options.host), token))
    server.daemon_threads = True
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(options.cert, options.key)
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(f"https://{options.host}:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
