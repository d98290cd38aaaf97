"""A small client of the API server for tests: JSON over one connection per thread, no retries of writes, no caches."""

import concurrent.futures
import http.client
import json
import ssl
import threading
import time
import urllib.parse

GROUP = "/apis/elasticgpu.io/v1alpha"
GPUS = f"{GROUP}/elasticgpus"
CLASSES = f"{GROUP}/elasticgpuclasses"
NODES = "/api/v1/nodes"
MERGE = "application/merge-patch+json"
PAGE = 500
IDLE = 30  # seconds; an API server closes a connection that was idle for 90
PATIENCE = 300  # seconds; on an idle machine, each wait takes a few seconds


def claims(namespace="default"):
    return f"{GROUP}/namespaces/{namespace}/elasticgpuclaims"


def quotas(namespace="default"):
    return f"{GROUP}/namespaces/{namespace}/elasticgpuquotas"


def resource_claims(namespace="default"):
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"


def pods(namespace="default"):
    return f"/api/v1/namespaces/{namespace}/pods"


class Refused(Exception):
    """The server refused the request: status is the HTTP status, body its Status object."""

    def __init__(self, status, body):
        super().__init__(f"{status}: {body.get('message', body)}")
        self.status = status
        self.body = body


class Client:
    """A client with the identity of a TLS context or of a token. Thread-safe."""

    # Format of JSON bodies: default with blanks, as Python's clients write it; (",", ":") without blanks, as kubectl.
    separators = None

    def __init__(self, url, context=None, token=None):
        parts = urllib.parse.urlsplit(url)
        self.host = parts.netloc
        self.plain = parts.scheme == "http"  # the embedded API server
        self.context = context
        self.token = token
        self.local = threading.local()

    def as_token(self, pki, token):
        """Returns a client of the same server with the token's identity and no certificate."""
        return Client(f"https://{self.host}", ssl.create_default_context(cafile=str(pki / "ca.crt")), token)

    def call(self, method, path, body=None, content_type="application/json"):
        """Returns the parsed answer. Raises Refused if the status is not 2xx."""
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        text = None if body is None else json.dumps(body, separators=self.separators)
        # A server may close an idle connection at any time; repeating a read is harmless.
        for again in (method == "GET", False):
            connection = getattr(self.local, "connection", None)
            if connection is not None and time.monotonic() > self.local.used + IDLE:
                connection.close()
                connection = None
            if connection is None:
                connection = self.local.connection = self.connect()
                self.local.used = time.monotonic()
            try:
                connection.request(method, path, text, headers)
                answer = connection.getresponse()
                got = answer.read()
                self.local.used = time.monotonic()
                break
            except (OSError, http.client.HTTPException):
                connection.close()
                self.local.connection = None
                if not again:
                    raise
        try:
            parsed = json.loads(got)
        except ValueError:
            parsed = {"message": got.decode(errors="replace")}
        if answer.status >= 300:
            raise Refused(answer.status, parsed)
        return parsed

    def connect(self, timeout=PATIENCE):
        """Opens a separate connection to the server."""
        if self.plain:
            return http.client.HTTPConnection(self.host, timeout=timeout)
        return http.client.HTTPSConnection(self.host, context=self.context, timeout=timeout)

    def get(self, path):
        return self.call("GET", path)

    def create(self, path, body):
        return self.call("POST", path, body)

    def patch(self, path, body, content_type=MERGE):
        return self.call("PATCH", path, body, content_type)

    def delete(self, path):
        return self.call("DELETE", path)

    def items(self, path, query=""):
        """Returns all objects of a collection in pages, from one version of it."""
        found, token = [], ""
        while True:
            page = self.get(f"{path}?limit={PAGE}&continue={urllib.parse.quote(token)}{query}")
            found += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return found

    def delete_all(self, path):
        """Deletes the objects one by one, several at once: a single request for a thousand objects would exceed the
        server's time limit."""

        def delete(each):
            try:
                self.delete(f"{path}/{each['metadata']['name']}")
            except Refused as refused:
                if refused.status != 404:
                    raise

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(delete, self.items(path)))

    def exists(self, path):
        try:
            self.get(path)
        except Refused as refused:
            if refused.status == 404:
                return False
            raise
        return True

    def token_for(self, namespace, account, **spec):
        """Returns a service account's token. spec: fields of the TokenRequest, such as boundObjectRef."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [], **spec}}
        return self.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", body)["status"]["token"]


def until(what, probe, patience=PATIENCE):
    """Returns the first true result of look(). Raises AssertionError with the last result after `patience` seconds,
    which is far more than needed."""
    started = time.monotonic()
    pause = 0.05
    while True:
        seen = probe()
        if seen:
            return seen
        if time.monotonic() > started + patience:
            raise AssertionError(f"{what}: not within {patience} s")
        time.sleep(pause)
        pause = min(1, pause * 1.5)  # polling also loads the server


class Report:
    """Checks of one script. Prints failures at once, and their number at the end."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, holds, detail=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}" + (f": {detail}" if detail != "" else ""), flush=True)
        return holds

    def refused(self, what, act, status, *words):
        """Checks that act() is refused with that HTTP status and a message that contains all the words."""
        try:
            act()
        except Refused as refused:
            message = str(refused.body.get("message", ""))
            return self.check(what, refused.status == status and all(word in message for word in words), refused)
        return self.check(what, False, "it was accepted")

    def close(self):
        """Prints the totals and returns the exit status."""
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0
