# Receives webhooks of Idempay: keeps each event once, answers, and does the work afterwards. The guide is docs/guides/webhooks-receivers.md.
import base64, hmac, json, os, re, sqlite3, sys, threading, time, traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ADDRESS = ("127.0.0.1", int(os.environ.get("PORT", "3021")))
EVENTS = os.environ.get("EVENTS", "events.sqlite")
TOLERANCE_SECONDS = 300
LONGEST_BODY_BYTES = 1_000_000
POLL_SECONDS = 0.2

# Two during a change, with a space between them.
def secrets_in(text):
    secrets = [base64.b64decode(each.removeprefix("whsec_")) for each in text.split() if each.startswith("whsec_")]
    if not secrets or len(secrets) < len(text.split()) or min(map(len, secrets)) < 24:
        sys.exit("WEBHOOK_SECRETS must be what the endpoint has in WEBHOOKS_FILE: whsec_, then 24 bytes or more in base64.")
    return secrets

SECRETS = secrets_in(os.environ.get("WEBHOOK_SECRETS", ""))

# The bytes that arrived, because JSON that is parsed and written again is another text. None: signed with no secret, or not now.
def verified_id(headers, body):
    id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not id or not re.fullmatch("[0-9]{1,12}", timestamp) or abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return None
    content = f"{id}.{timestamp}.".encode() + body
    expected = [b"v1," + base64.b64encode(hmac.digest(secret, content, "sha256")) for secret in SECRETS]
    # A proxy may send several signatures as several headers, or as one with commas.
    given = re.split(r",?\s+", " ".join(headers.get_all("webhook-signature", [])))
    return id if any(hmac.compare_digest(one.encode(), other) for one in given for other in expected) else None

# A sender that shares the secret could sign anything.
def is_event(body):
    try:
        return isinstance(json.loads(body)["type"], str)
    except (KeyError, TypeError, ValueError):
        return False

def database():
    return sqlite3.connect(EVENTS, isolation_level=None, timeout=10)

# It is on the disk when this returns. The same event is kept once, also if it comes to two servers at the same time.
def keep(id, body):
    with database() as events:
        events.execute("INSERT INTO events (id, body) VALUES (?, ?) ON CONFLICT DO NOTHING", (id, body.decode()))

# An event stays in the table after its work is done, because it may come again days later.
def work_on_kept():
    for id, body in database().execute("SELECT id, body FROM events WHERE NOT is_done").fetchall():
        try:
            finish(id, json.loads(body))
        except Exception:
            # One event that cannot be worked on must not hold up the others.
            traceback.print_exc()

# The work and the note that it is done are one transaction, so it is done once, whenever this program is killed.
def finish(id, event):
    with database() as books:
        books.execute("BEGIN IMMEDIATE")
        if books.execute("UPDATE events SET is_done = true WHERE id = ? AND NOT is_done", (id,)).rowcount:
            work_on(books, id, event)

def work_on(books, id, event):
    data = event["data"]
    texts = {
        "payment.completed": "paid: {reference}, {amount} {currency}",
        "refund.completed": "given back: {refund[name]} of {refund[payment]}, {amount} {currency}",
    }
    # Any other type: nothing was paid; or a newer service sends what this program does not know.
    if event["type"] in texts:
        books.execute("INSERT INTO books (id, text) VALUES (?, ?)", (id, texts[event["type"]].format(**data)))

def work():
    while True:
        try:
            work_on_kept()
        except sqlite3.Error:
            traceback.print_exc()
        time.sleep(POLL_SECONDS)

class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 15

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        # Idempay sends the length. A proxy that sends the body in chunks must be told not to.
        if not length or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            return self.answer(411)
        if not re.fullmatch("[0-9]{1,7}", length) or int(length) > LONGEST_BODY_BYTES:
            self.close_connection = True
            return self.answer(413)
        body = self.rfile.read(int(length))
        if self.path != "/webhooks/idempay":
            return self.answer(404)
        id = verified_id(self.headers, body)
        if id is None or not is_event(body):
            return self.answer(400)
        # If this fails there is no answer, and Idempay sends it again.
        keep(id, body)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        if self.close_connection:
            self.send_header("Connection", "close")
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

with database() as events:
    events.execute("CREATE TABLE IF NOT EXISTS events (id PRIMARY KEY, body NOT NULL, is_done NOT NULL DEFAULT false)")
    events.execute("CREATE TABLE IF NOT EXISTS books (id, text)")
# Idempay sends up to 100 events at the same time.
ThreadingHTTPServer.request_queue_size = 128
server = ThreadingHTTPServer(ADDRESS, Receiver)
threading.Thread(target=work, daemon=True).start()
print(json.dumps({"msg": "listening", "port": server.server_port}), flush=True)
server.serve_forever()
