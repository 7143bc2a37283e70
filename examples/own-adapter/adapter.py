import json, sqlite3, time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

ADDRESS = ("127.0.0.1", 8092)

# These functions play your company: it charges a reference once, and says later what became of it. Put the calls of its API here.
def company(statement, values=()):
    with sqlite3.connect("charges.sqlite", isolation_level=None) as books:
        return books.execute(statement, values).fetchone()

company("CREATE TABLE IF NOT EXISTS charges"
        " (reference PRIMARY KEY, amount, currency, card, order_number, status, known_at, until, return_url)")

company("CREATE TABLE IF NOT EXISTS refunds (reference PRIMARY KEY, charge, amount, currency, status)")
UNITS = "CAST(REPLACE(amount, '.', '') AS INTEGER)"

def charge_at_company(reference, charge):
    card, return_url = charge.get("source"), charge.get("returnUrl")
    # The bank asks the holder of this card. If no payer is present, the charge is declined, because there is no answer.
    asks = "pending" if return_url else "declined"
    status = {"tok_declined": "declined", "tok_asks": asks}.get(card, "succeeded")
    known_at = time.time() + (1 if card == "tok_slow" else 0)
    until = time.time() + 3600
    values = (reference, charge["amount"], charge["currency"], card, charge.get("order"), status, known_at, until, return_url)
    company("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", values)
    time.sleep(max(0, known_at - time.time()))
    return find_at_company(reference)

def find_at_company(reference):
    # A charge whose time is over must not be confirmed any more, so it is ended before a look-up says that it is declined.
    company("UPDATE charges SET status = 'declined' WHERE reference = ? AND status = 'pending' AND until <= ?", (reference, time.time()))
    status = "CASE WHEN known_at > ? THEN 'processing' ELSE status END"
    return company(f"SELECT 'ch_' || rowid, {status}, amount, currency, until FROM charges WHERE reference = ?", (time.time(), reference))

def end_at_company(reference, ending):
    # A charge that has not come is declined in advance: if it comes later, it finds this row.
    values = (reference, ending["amount"], ending["currency"])
    company("INSERT INTO charges VALUES (?, ?, ?, NULL, NULL, 'declined', 0, 0, NULL) ON CONFLICT DO NOTHING", values)
    company("UPDATE charges SET status = 'declined' WHERE reference = ? AND status = 'pending'", (reference,))
    return find_at_company(reference)

def refund_at_company(reference, refund):
    # One statement decides: what is sent twice is one refund, and all refunds of a charge are never more than it. No amount is a float.
    left = ("SELECT units(amount) - (SELECT COALESCE(SUM(units(amount)), 0) FROM refunds WHERE charge = :charge AND status = 'succeeded')"
            " FROM charges WHERE reference = :charge AND currency = :currency AND status = 'succeeded'").replace("units(amount)", UNITS)
    status = f"CASE WHEN ({left}) >= CAST(REPLACE(:amount, '.', '') AS INTEGER) THEN 'succeeded' ELSE 'declined' END"
    values = {"charge": None, **refund, "reference": reference}
    company(f"INSERT INTO refunds SELECT :reference, :charge, :amount, :currency, {status} WHERE true ON CONFLICT DO NOTHING", values)
    return find_refund_at_company(reference)

def find_refund_at_company(reference):
    return company("SELECT 're_' || rowid, status, amount, currency, 0 FROM refunds WHERE reference = ?", (reference,))

def decide_at_company(reference, status):
    company("UPDATE charges SET status = ? WHERE reference = ? AND status = 'pending' AND until > ?", (status, reference, time.time()))
    return company("SELECT return_url FROM charges WHERE reference = ?", (reference,))

# The contract of docs/reference/processor.md.
class Adapter(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind, reference, last = (urlsplit(self.path).path[1:].split("/") + ["", ""])[:3]
        if kind == "charges" and not reference:
            key = self.headers.get("Idempotency-Key")
            return self.act(charge_at_company, key, body, {"declined": 402, "pending": 202, "processing": 409})
        if kind == "charges" and last == "ending":
            return self.act(end_at_company, reference, body, {"processing": 425})
        if kind == "refunds" and not reference:
            return self.act(refund_at_company, self.headers.get("Idempotency-Key"), body, {"declined": 402})
        if kind == "pages" and last in ("confirm", "refuse"):
            return self.go_back(decide_at_company(reference, "succeeded" if last == "confirm" else "declined"))
        self.answer(404, {"error": "no such path"})

    def act(self, ask_company, reference, body, statuses):
        try:
            asked = json.loads(body)
            money = [asked["amount"], asked["currency"]]
        except (KeyError, TypeError, ValueError):
            money = None
        if not reference or not money or not money[0]:
            return self.answer(400, {"error": "a charge has an Idempotency-Key, an amount and a currency"})
        id, status, *charged, until = ask_company(reference, asked)
        if charged != money:
            return self.answer(422, {"error": "another amount was charged with this reference", "reference": reference})
        self.answer(statuses.get(status, 200), outcome(reference, id, status, *charged, until))

    def do_GET(self):
        kind, reference = (urlsplit(self.path).path[1:].split("/") + [""])[:2]
        found = (find_refund_at_company if kind == "refunds" else find_at_company)(reference)
        if kind == "pages" and found:
            return self.answer(200, PAGE.replace("REFERENCE", reference), "text/html")
        missing = {"error": "no charge with this reference", "reference": reference}
        self.answer(200 if found else 404, outcome(reference, *found) if found else missing)

    # The payer comes back to the shop, which asks Idempay how the payment ended.
    def go_back(self, found):
        self.answer(303 if found else 404, {}, more=[f"Location: {found[0]}"] if found else [])

    def answer(self, status, body, media_type="application/json", more=()):
        text = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        # The last two headers say that the adapter keeps contract 3, and that no money moves. Remove the last one when money moves.
        for header in (f"Content-Type: {media_type}", f"Content-Length: {len(text)}", *more, "Idempay-Contract: 3", "Moves-Money: no"):
            self.send_header(*header.split(": ", 1))
        self.end_headers()
        self.wfile.write(text)

# The id is the company's own name of the charge, as it just answered: only two ids show that there are two charges. The last three say
# which charge the reply is about, so that Idempay takes no other reply for it. They are what was charged, not what was asked for.
def outcome(reference, id, status, amount, currency, until):
    action = {"url": f"http://127.0.0.1:{ADDRESS[1]}/pages/{reference}"}
    more = {
        "declined": {"reason": "The card was declined." if id.startswith("ch_") else "More than is left of the charge."},
        "pending": {"until": datetime.fromtimestamp(until, timezone.utc).isoformat(), "action": action},
    }
    return {"id": id, "status": status, **more.get(status, {}), "reference": reference, "amount": amount, "currency": currency}

# The bank's page. A real one is your company's, whose API answers its address.
PAGE = """<!doctype html><title>The bank</title><h1>Do you want to pay?</h1>
<form method="post" action="/pages/REFERENCE/confirm"><button>Confirm</button></form>
<form method="post" action="/pages/REFERENCE/refuse"><button>Refuse</button></form>"""

ThreadingHTTPServer(ADDRESS, Adapter).serve_forever()
