"""Certificates of a cluster, created with the openssl command, and kubeconfigs with them."""

import base64
import json
import ssl
import subprocess

NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
DAYS = "30"


class Failure(Exception):
    """The cluster did not start, or lost a part; the message is the reason."""


def openssl(*arguments, cwd):
    done = subprocess.run(["openssl", *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"openssl {arguments[0]}: {done.stderr.strip()}")


def make_authority(folder, name="ca"):
    """Creates ca.crt and ca.key, which sign all other certificates."""
    folder.mkdir(parents=True, exist_ok=True)
    openssl("req", "-x509", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.crt", "-days", DAYS, "-subj", f"/CN=test-{name}",
            cwd=folder)


def issue(folder, name, subject, extensions="extendedKeyUsage=clientAuth"):
    """Creates NAME.crt and NAME.key, signed by ca; a client certificate unless the extensions differ."""
    (folder / f"{name}.ext").write_text(extensions + "\n")
    openssl("req", "-new", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject, cwd=folder)
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", DAYS, "-extfile", f"{name}.ext", "-out", f"{name}.crt", cwd=folder)


def make_certificates(folder):
    """Creates the authority, kube-apiserver's certificate, the administrator's, and the service accounts' key pair
    (sa.key, sa.pub)."""
    make_authority(folder)
    issue(folder, "apiserver", "/CN=kube-apiserver", "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth")
    issue(folder, "admin", "/O=system:masters/CN=admin")
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "sa.key", cwd=folder)
    openssl("pkey", "-in", "sa.key", "-pubout", "-out", "sa.pub", cwd=folder)


def write_kubeconfig(path, url, pki, user="admin", token=None):
    """Writes a kubeconfig for the user of that certificate, or for the token's user. Only the file's owner can read
    it."""

    def data(name):
        return base64.b64encode((pki / name).read_bytes()).decode()

    credentials = {"token": token} if token else {"client-certificate-data": data(f"{user}.crt"),
                                                  "client-key-data": data(f"{user}.key")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority-data": data("ca.crt")}}],
        "users": [{"name": user, "user": credentials}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1) + "\n")  # JSON is YAML


def admin_context(pki, user="admin"):
    """Returns a TLS context that verifies the server and presents the user's certificate."""
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / f"{user}.crt", pki / f"{user}.key")
    return context
