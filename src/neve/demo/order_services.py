"""Services of the shop behind an order, from its checkout to the mail, with their databases and pools. Data only."""

from __future__ import annotations

from neve.demo.topology import (
    Borrow,
    Call,
    Failure,
    Fetch,
    Latency,
    Operation,
    Parallel,
    Pool,
    Publish,
    Query,
    Service,
    Store,
    Work,
)

FEATURES = Store("redis", "3", "features-valkey.shop.svc", 6379)
PAYMENTS = Store("postgresql", "payments", "payments-pg.shop.svc", 5432)
STOCK = Store("mysql", "inventory", "inventory-mysql.shop.svc", 3306)
PARCELS = Store("mongodb", "shipping", "shipping-mongo.shop.svc", 27017)

PAYMENT_POOL = Pool("HikariPool-1", 10)
INVENTORY_POOL = Pool("inventory-pool", 16)

CHECKOUT = Service(
    "checkout",
    language="go",
    runtime="go 1.24.1",
    version="3.8.2",
    protocol="grpc",
    port=5050,
    replicas=2,
    operations=(
        Operation(
            "PlaceOrder",
            Latency(2.0),
            (
                Parallel(
                    (
                        Call("cart", "GetCart"),
                        Call("catalog", "GetProduct"),
                        Call("currency", "Convert"),
                        Call("shipping", "POST /quote"),
                    )
                ),
                Work("prepareOrder", Latency(1.5)),
                Call("fraud", "Score", event="scored"),
                Call("payment", "Charge", timeout_ms=1550, attempts=2, event="charged"),
                Call("inventory", "Reserve", event="reserved"),
                Call("shipping", "POST /ship", event="shipped"),
                Call("cart", "EmptyCart", required=False),
                Publish("orders"),
            ),
            tags=(
                "app.order.id",
                "app.order.amount",
                "app.currency",
                "app.cart.items",
                "app.product.ids",
                "app.user.id",
            ),
        ),
    ),
)

PAYMENT = Service(
    "payment",
    language="java",
    runtime="OpenJDK 21.0.6",
    version="2.14.3",
    protocol="grpc",
    port=50051,
    replicas=2,
    operations=(
        Operation(
            "Charge",
            Latency(4.0),
            (
                Borrow(),
                Query(PAYMENTS, "SELECT", "cards", "SELECT token, network FROM cards WHERE user_id = $1", Latency(2.2)),
                Fetch("POST", "api.acquirer.example", "/v2/charges", Latency(32.0, 0.3)),
                Query(
                    PAYMENTS,
                    "INSERT",
                    "charges",
                    "INSERT INTO charges (order_id, amount, currency) VALUES ($1, $2, $3)",
                    Latency(3.0),
                ),
            ),
            error_rate=0.003,
            failure=Failure("shop.payment.CardDeclinedException", "card declined by issuer", "FAILED_PRECONDITION"),
            tags=(
                "app.order.id",
                "app.order.amount",
                "app.currency",
                "app.payment.card_type",
                "app.payment.three_d_secure",
            ),
        ),
        Operation(
            "ListMethods",
            Latency(3.0),
            (
                Borrow(),
                Query(PAYMENTS, "SELECT", "cards", "SELECT network, last4 FROM cards WHERE user_id = $1", Latency(2.5)),
                Fetch("GET", "wallet.acquirer.example", "/v1/methods", Latency(28.0, 0.3)),
            ),
            tags=("app.user.id",),
        ),
    ),
    pool=PAYMENT_POOL,
)

FRAUD = Service(
    "fraud",
    language="python",
    runtime="CPython 3.12.9",
    version="0.31.0",
    protocol="grpc",
    port=9100,
    replicas=2,
    operations=(
        Operation(
            "Score",
            Latency(1.5),
            (
                Query(FEATURES, "MGET", "features", "MGET user:? card:? device:?", Latency(0.8), hit_rate=0.9),
                Work("model.predict", Latency(7.0, 0.4)),
            ),
            tags=("app.order.id", "app.fraud.score", "app.fraud.flagged"),
        ),
        Operation(
            "orders process",
            Latency(4.0),
            (
                Work("update_features", Latency(9.0)),
                Query(FEATURES, "MSET", "features", "MSET user:? card:?", Latency(1.2)),
            ),
        ),
    ),
)

INVENTORY = Service(
    "inventory",
    language="java",
    runtime="OpenJDK 21.0.6",
    version="5.0.9",
    protocol="grpc",
    port=9555,
    replicas=2,
    operations=(
        Operation(
            "GetStock",
            Latency(0.9),
            (Query(STOCK, "SELECT", "stock", "SELECT on_hand FROM stock WHERE sku = ?", Latency(1.4)),),
            tags=("app.product.id", "app.stock.on_hand"),
        ),
        Operation(
            "Reserve",
            Latency(1.5),
            (
                Borrow(),
                Query(
                    STOCK, "UPDATE", "stock", "UPDATE stock SET on_hand = on_hand - ? WHERE sku = ?", Latency(3.5, 0.5)
                ),
                Query(STOCK, "INSERT", "reservations", "INSERT INTO reservations VALUES (?, ?, ?)", Latency(2.0)),
            ),
            error_rate=0.001,
            failure=Failure("java.sql.SQLTransactionRollbackException", "deadlock found, try again", "INTERNAL"),
            tags=("app.order.id", "app.product.ids"),
        ),
    ),
    pool=INVENTORY_POOL,
)

SHIPPING = Service(
    "shipping",
    language="rust",
    runtime="rustc 1.85.0",
    version="0.9.14",
    protocol="http",
    port=8181,
    replicas=2,
    operations=(
        Operation(
            "POST /quote",
            Latency(1.0),
            (Work("calculate_quote", Latency(0.8)),),
            tags=("app.shipping.cost", "app.shipping.country"),
        ),
        Operation(
            "POST /ship",
            Latency(1.2),
            (Query(PARCELS, "insert", "parcels", '{"insert":"parcels"}', Latency(2.8, 0.5)),),
            error_rate=0.001,
            failure=Failure("shipping::LabelError", "no carrier serves this address", "FAILED_PRECONDITION"),
            tags=("app.order.id", "app.shipping.country", "app.shipping.express"),
        ),
    ),
)

EMAIL = Service(
    "email",
    language="ruby",
    runtime="ruby 3.4.2",
    version="1.9.0",
    protocol="kafka",
    port=9092,
    replicas=1,
    operations=(
        Operation(
            "orders process",
            Latency(3.0),
            (
                Work("render_confirmation", Latency(6.0)),
                Fetch("POST", "smtp.mailer.example", "/v3/mail/send", Latency(85.0, 0.4)),
            ),
            error_rate=0.004,
            failure=Failure("Net::ReadTimeout", "mail relay did not answer", "UNAVAILABLE"),
            tags=("app.order.id",),
        ),
    ),
)
