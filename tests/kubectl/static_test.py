"""Runs the statically linked program in a root folder without any library: a request over TLS to a name that only a DNS server knows.

  static_test.py BIN_DIR

Exit status 77: skipped, because this is not root, or the address of the DNS server is in use."""
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "e2e"))
from standalone import Report, Standalone  # noqa: E402

SKIPPED = 77
NODES = "nodes: [{name: n, count: 2, gpus: [{model: T4, count: 2, memory: 16Gi}]}]\n"
NAME = "api.egpu.test"
RESOLVER = "127.0.53.53"  # resolv.conf has no ports
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: it
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
clusters: [{{name: it, cluster: {{server: "https://{name}:{port}", certificate-authority: /authority.pem}}}}]
users: [{{name: it, user: {{client-certificate: /authority.pem, client-key: /key.pem}}}}]
"""


def answer(query):
    """Returns the answer of a DNS server that knows the address of NAME only."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += query[at] + 1
    kind, = struct.unpack(">H", query[at + 1:at + 3])
    question, known = query[12:at + 5], ".".join(labels).lower() == NAME
    records = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton("127.0.0.1") if known and kind == 1 else b""
    return query[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, 1 if records else 0, 0, 0) + question + records


def serve_names(udp, asked):
    while True:
        query, client = udp.recvfrom(512)
        asked.append(query)
        udp.sendto(answer(query), client)


def copy(source, target, host=b""):
    """The embedded API server answers only requests for localhost."""
    try:
        while data := source.recv(65536):
            target.sendall(data.replace(b"Host: " + host, b"Host: localhost") if host else data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def serve_tls(listener, context, port, certified):
    """Forwards each connection to the port, without TLS. Notes whether the client has a certificate."""
    while True:
        client, _ = listener.accept()
        try:
            plain = context.wrap_socket(client, server_side=True)
        except OSError:
            continue
        certified.append(bool(plain.getpeercert()))
        server = socket.create_connection(("127.0.0.1", port))
        for each in ((plain, server, f"{NAME}:{listener.getsockname()[1]}".encode()), (server, plain)):
            threading.Thread(target=copy, args=each, daemon=True).start()


def start(server, work, asked, certified):
    """Starts the servers of names and of TLS. Returns the port of the latter."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((RESOLVER, 53))
    threading.Thread(target=serve_names, args=(udp, asked), daemon=True).start()
    key, certificate = os.path.join(work, "key.pem"), os.path.join(work, "authority.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={NAME}",
                    "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve_tls, args=(listener, context, int(server.rsplit(":", 1)[1]), certified), daemon=True).start()
    return listener.getsockname()[1]


def prepare(root, program, work, port):
    """Fills the folder with the program and text files. nsswitch.conf names modules that only a program with shared libraries can load."""
    os.makedirs(os.path.join(root, "etc"))
    shutil.copy(program, os.path.join(root, "kubectl-egpu"))
    for name in ("authority.pem", "key.pem"):
        shutil.copy(os.path.join(work, name), os.path.join(root, name))
    for path, text in (("etc/resolv.conf", f"nameserver {RESOLVER}\n"), ("etc/nsswitch.conf", "hosts: resolve [!UNAVAIL=return] files mdns4\npasswd: systemd\n"),
                       ("kubeconfig", KUBECONFIG.format(name=NAME, port=port)), ("other", KUBECONFIG.format(name="unknown.egpu.test", port=port))):
        with open(os.path.join(root, path), "w", encoding="utf-8") as file:
            file.write(text)


def linked(r, program):
    listed = subprocess.run(["readelf", "--program-headers", "--dynamic", program], capture_output=True, text=True, check=True).stdout
    r.check("the program has no interpreter and needs no library", "INTERP" not in listed and "NEEDED" not in listed, listed)
    loaded = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    r.check("ldd reports it", re.search("statically linked|not a dynamic executable", loaded.stdout + loaded.stderr), loaded)


def asks(r, root, asked, certified):
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin")

    def egpu(*words):
        # It has no variables either.
        return subprocess.run([chroot, root, "/kubectl-egpu", *words], env={}, capture_output=True, text=True, timeout=60, check=False)
    r.check("the version", re.fullmatch(r"\d+\.\d+\.\d+\n", egpu("--version").stdout), egpu("--version"))
    shown = egpu("map", "--kubeconfig", "/kubeconfig")
    r.check("the map, over TLS", shown.returncode == 0 and shown.stdout.count("T4") == 4, shown)
    r.check("the name was asked of the DNS server", asked)
    r.check("with the certificate of the kubeconfig", certified and all(certified), certified)
    certified.clear()
    egpu("map", "--kubeconfig", "/kubeconfig", "--token", "other")
    r.check("--token replaces the certificate", certified and not any(certified), certified)
    refused = egpu("map", "--kubeconfig", "/other")
    r.check("an unknown name", refused.returncode == 1 and "unknown.egpu.test" in refused.stderr, refused)
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", os.path.join(root, "authority.pem"))
    refused = egpu("map", "--kubeconfig", "/kubeconfig", "--token", "other")
    r.check("a certificate of another authority", refused.returncode == 1 and "certificate" in refused.stderr, refused)


def main(bin_dir):
    if os.geteuid() != 0:
        print("skipped: chroot needs root")
        return SKIPPED
    r = Report()
    program = os.path.join(bin_dir, "kubectl-egpu")
    linked(r, program)
    work = tempfile.mkdtemp(prefix="egpu-static-")
    s = Standalone(bin_dir, NODES)
    try:
        with open(s.kubeconfig, encoding="utf-8") as file:
            server = re.search(r"server: (\S+)", file.read()).group(1)
        asked, certified = [], []
        try:
            port = start(server, work, asked, certified)
        except OSError as why:
            print(f"skipped: {RESOLVER}:53: {why}")
            return SKIPPED
        root = os.path.join(work, "root")
        prepare(root, program, work, port)
        asks(r, root, asked, certified)
    finally:
        s.clean()
        shutil.rmtree(work)
    return r.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
