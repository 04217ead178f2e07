"""A visit: who comes, what they look at, what they would pay. Every service tags its spans with facts of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from neve.demo.attributes import Attributes

PRICES = {
    "SKI-POLE-115": 49.9,
    "SNOWSHOE-28": 189.0,
    "CRAMPON-12P": 159.5,
    "ICE-AXE-60": 99.0,
    "DOWN-PARKA-M": 329.0,
    "TENT-4S-2P": 749.0,
    "STOVE-MSR-2": 139.0,
    "GOGGLE-PHOTO": 84.95,
    "BEANIE-WOOL": 24.5,
    "AVALANCHE-BCN": 299.0,
    "ROPE-60M-9": 174.0,
    "THERMOS-1L": 34.9,
}
PRODUCTS = tuple(PRICES)
CURRENCIES = {"EUR": 1.0, "USD": 1.08, "CHF": 0.94, "GBP": 0.84, "NOK": 11.7}
COUNTRIES = ("DE", "US", "CH", "GB", "NO", "AT", "FR")
QUERIES = ("tent", "ski", "down jacket", "rope", "crampons", "goggles", "stove", "gift")
LANGUAGES = (("de-DE", "de;q=0.9"), ("en-US",), ("fr-CH", "fr;q=0.9", "de;q=0.5"), ("en-GB",), ("nb-NO", "en;q=0.7"))
CARDS = ("visa", "mastercard", "amex")
AGENTS = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_3 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148",
    "Mozilla/5.0 (X11; Linux x86_64; rv:136.0) Gecko/20100101 Firefox/136.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/134.0.0.0 Safari/537.36",
    "ShopApp/9.4.1 (Android 15)",
)
USERS = 2400


def draw_visit(rng: random.Random) -> Attributes:
    """Draw all facts of one visit; each service picks those it knows."""
    product = rng.choice(PRODUCTS)
    products = (product, *rng.sample(PRODUCTS, rng.randrange(3)))
    quantity = rng.choice((1, 1, 1, 2, 3))
    currency = rng.choice(tuple(CURRENCIES))
    amount = quantity * sum(PRICES[p] for p in products) * CURRENCIES[currency]
    fraud = round(rng.betavariate(1.2, 14.0), 4)
    return {
        **_visitor(rng),
        "app.product.id": product,
        "url.path": f"/product/{product}",
        "app.product.ids": products,
        "app.product.quantity": quantity,
        "app.cart.items": quantity * len(products),
        "app.currency": currency,
        "app.currency.rate": CURRENCIES[currency],
        "app.order.id": f"ord-{rng.getrandbits(40):010x}",
        "app.order.amount": round(amount, 2),
        "app.payment.card_type": rng.choice(CARDS),
        "app.payment.three_d_secure": rng.random() < 0.4,
        "app.shipping.cost": round(4.9 + 1.5 * quantity, 2),
        "app.shipping.country": rng.choice(COUNTRIES),
        "app.shipping.express": rng.random() < 0.12,
        "app.fraud.score": fraud,
        "app.fraud.flagged": fraud > 0.25,
        "app.search.query": rng.choice(QUERIES),
        "app.search.hits": rng.randrange(0, 40),
        "app.stock.on_hand": rng.randrange(3, 180),
        "app.ads.keywords": products[:2],
        "app.ads.count": rng.randrange(1, 4),
        "app.recommendation.ids": products,
        "app.recommendation.score": round(0.5 + rng.random() / 2, 3),
    }


def _visitor(rng: random.Random) -> dict[str, str | bool | tuple[str, ...]]:
    """Draw who comes, and with what."""
    bits = rng.getrandbits(96)
    return {
        "app.user.id": f"u-{rng.randrange(USERS):05d}",
        "app.user.guest": rng.random() < 0.3,
        "session.id": f"{bits:024x}",
        "client.address": f"198.51.{bits & 127}.{bits >> 8 & 255}",
        "user_agent.original": rng.choice(AGENTS),
        "http.request.header.accept-language": rng.choice(LANGUAGES),
    }
