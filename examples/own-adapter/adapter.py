import json, sqlite3
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# These two functions stand for your company. Put the calls of its API here: it charges a reference once, and says later what became of it.
def company(statement, values=()):
    with sqlite3.connect("charges.sqlite", isolation_level=None) as books:
        return books.execute(statement, values).fetchone()

company("CREATE TABLE IF NOT EXISTS charges (reference PRIMARY KEY, amount, currency, card, order_number, status)")

def charge_at_company(reference, charge):
    status = "declined" if charge.get("source") == "tok_declined" else "succeeded"
    values = (reference, charge["amount"], charge["currency"], charge.get("source"), charge.get("order"), status)
    company("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", values)
    return find_at_company(reference)

def find_at_company(reference):
    return company("SELECT status, amount, currency FROM charges WHERE reference = ?", (reference,))

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
        status, *charged = charge_at_company(reference, charge)
        if charged != [amount, currency]:
            return self.answer(422, {"error": "another amount was charged with this reference"})
        self.answer(402 if status == "declined" else 200, outcome(status))

    def do_GET(self):
        found = find_at_company(self.path.removeprefix("/charges/"))
        self.answer(200 if found else 404, outcome(found[0]) if found else {"error": "no charge with this reference"})

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        # The last two: it reads what a payment is about, and moves no money. Leave the last one out when it does.
        for name in ("Content-Type: application/json", f"Content-Length: {len(text)}", "Idempay-Contract: 2", "Moves-Money: no"):
            self.send_header(*name.split(": "))
        self.end_headers()
        self.wfile.write(text)

def outcome(status):
    return {"status": status, "reason": "The card was declined."} if status == "declined" else {"status": status}

ThreadingHTTPServer(("127.0.0.1", 8092), Adapter).serve_forever()
