"""The example pool server with faults.  faulty_pool.py POOL_SERVER CONTROL LOG [arguments of POOL_SERVER]

CONTROL is a JSON file, read for each request: {"delay": seconds before the request is handled, "method": "PUT", "code": status of all answers,
"endpoint": text}. Without `method`, the delay is for all requests. LOG gets a line per request."""
import importlib.util
import json
import pathlib
import sys
import time


def load(path):
    spec = importlib.util.spec_from_file_location("pool_server", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(server, control, log):
    module = load(server)
    handler_of = module.handler_of

    def faulty(pool, token):
        class Handler(handler_of(pool, token)):
            def handle_request(self):
                with open(log, "a", encoding="utf-8") as out:
                    out.write(f"{self.command} {self.path}\n")
                self.faults = json.loads(pathlib.Path(control).read_text(encoding="utf-8"))
                if self.faults.get("method", self.command) == self.command:
                    time.sleep(self.faults.get("delay", 0))
                if "code" not in self.faults:
                    return self.serve()
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                return self.reply(self.faults["code"], {"message": "as the test wants it"})

            def reply(self, code, answer):
                if answer and "endpoint" in answer and "endpoint" in self.faults:
                    answer = {**answer, "endpoint": self.faults["endpoint"]}
                super().reply(code, answer)

            do_GET = do_PUT = do_POST = do_DELETE = handle_request

        return Handler

    module.handler_of = faulty
    module.main()


if __name__ == "__main__":
    arguments = sys.argv[1:4]
    del sys.argv[1:4]
    main(*arguments)
