import json, sqlite3, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# These functions play your company: it charges a reference once, and says later what became of it. Put the calls of its API here.
def company(statement, values=()):
    with sqlite3.connect("charges.sqlite", isolation_level=None) as books:
        return books.execute(statement, values).fetchone()

company("CREATE TABLE IF NOT EXISTS charges (reference PRIMARY KEY, amount, currency, card, order_number, status, known_at)")

def charge_at_company(reference, charge):
    card = charge.get("source")
    status = "declined" if card == "tok_declined" else "succeeded"
    known_at = time.time() + (1 if card == "tok_slow" else 0)
    values = (reference, charge["amount"], charge["currency"], card, charge.get("order"), status, known_at)
    company("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", values)
    time.sleep(max(0, known_at - time.time()))
    return find_at_company(reference)

def find_at_company(reference):
    status = "CASE WHEN known_at > ? THEN 'processing' ELSE status END"
    return company(f"SELECT 'ch_' || rowid, {status}, amount, currency FROM charges WHERE reference = ?", (time.time(), reference))

# The contract of docs/reference/processor.md.
class Adapter(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        reference = self.headers.get("Idempotency-Key")
        try:
            charge = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            amount, currency = charge["amount"], charge["currency"]
        except (KeyError, TypeError, ValueError):
            amount = None
        if self.path != "/charges" or not reference or not amount:
            return self.answer(400, {"error": "a charge has an Idempotency-Key, an amount and a currency"})
        id, status, *charged = charge_at_company(reference, charge)
        if charged != [amount, currency]:
            return self.answer(422, {"error": "another amount was charged with this reference", "reference": reference})
        self.answer({"succeeded": 200, "declined": 402, "processing": 409}[status], outcome(reference, id, status, *charged))

    def do_GET(self):
        reference = self.path.removeprefix("/charges/")
        found = find_at_company(reference)
        missing = {"error": "no charge with this reference", "reference": reference}
        self.answer(200 if found else 404, outcome(reference, *found) if found else missing)

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        # The last two say that it reads the content of a payment, and that no money moves. Leave the last one out when money moves.
        for name in ("Content-Type: application/json", f"Content-Length: {len(text)}", "Idempay-Contract: 2", "Moves-Money: no"):
            self.send_header(*name.split(": "))
        self.end_headers()
        self.wfile.write(text)

# The id is the company's own name of the charge, as it just answered: only two ids show that there are two charges. The last three say
# which charge the reply is about, so that Idempay takes no other reply for it. They are what was charged, not what was asked for.
def outcome(reference, id, status, amount, currency):
    reason = {"reason": "The card was declined."} if status == "declined" else {}
    return {"id": id, "status": status, **reason, "reference": reference, "amount": amount, "currency": currency}

ThreadingHTTPServer(("127.0.0.1", 8092), Adapter).serve_forever()
