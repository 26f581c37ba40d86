"""Starts `hotcell mcp` over HTTP and lets `browser.mjs` try what a page could. Arguments: the path of `hotcell`, and of Node.js."""

import os
import pathlib
import subprocess
import sys

import server

HOTCELL, NODE = sys.argv[1:3]

with server.project() as place, server.over_http(HOTCELL, place) as url:
    variables = {"HOTCELL_URL": url, "HOTCELL_TOKEN": server.TOKEN, "HOTCELL_OTHER_TOKEN": server.OTHER_TOKEN}
    script = pathlib.Path(__file__).with_name("browser.mjs")
    sys.exit(subprocess.run([NODE, script], env={**os.environ, **variables}).returncode)
