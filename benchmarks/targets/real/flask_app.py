"""A Flask application, served by waitress with eight threads: flask_app.py

The first line on stdout is {"port": where it listens}. Ends when it is killed.
"""

from __future__ import annotations

import json
import sqlite3
import threading

from flask import Flask, jsonify, render_template_string
from waitress.server import create_server

PAGE = """<table>{% for row in rows %}<tr><td>{{ row[0] }}</td><td>{{ row[1]|upper }}</td></tr>{% endfor %}</table>"""
app = Flask(__name__)
local = threading.local()


def database() -> sqlite3.Connection:
    if not hasattr(local, "database"):
        local.database = sqlite3.connect(":memory:")
        local.database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
        local.database.executemany("INSERT INTO item (name) VALUES (?)", [(f"item {i}",) for i in range(200)])
    connection: sqlite3.Connection = local.database
    return connection


@app.get("/")
def page() -> str:
    return render_template_string(PAGE, rows=database().execute("SELECT id, name FROM item ORDER BY name").fetchall())


@app.get("/items")
def items() -> object:
    return jsonify([{"id": row[0], "name": row[1]} for row in database().execute("SELECT id, name FROM item")])


server = create_server(app, host="127.0.0.1", port=0, threads=8)
print(json.dumps({"port": server.effective_port}), flush=True)
server.run()
