# SPDX-License-Identifier: Apache-2.0
"""Serve one WSGI application: `python -m testbed.lab.serve MODULE ADDRESS PORT THREADS`.

OpenStack services ship WSGI modules, not servers. One process with threads is enough here.
"""

import importlib
import logging
import sys

MAX_BODY_BYTES = 1 << 34  # an image upload


def main() -> None:
    module, address, port, threads = sys.argv[1:]
    sys.argv = [module]  # the services parse sys.argv themselves when imported
    # Before any server: Nova 31 and 32 replace threads and sockets by eventlet's on their import.
    application = importlib.import_module(module).application
    from waitress import serve

    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    serve(
        application,
        host=address,
        port=int(port),
        threads=int(threads),
        channel_timeout=300,
        ident=module,
        max_request_body_size=MAX_BODY_BYTES,
    )


if __name__ == "__main__":
    main()
