"""The services of the shop, their databases, pools and topics, and the flows of its visitors. Data only."""

from __future__ import annotations

from neve.demo.topology import (
    Borrow,
    Call,
    Failure,
    Fetch,
    Flow,
    Latency,
    Operation,
    Parallel,
    Pool,
    Publish,
    Query,
    Service,
    Store,
    Topic,
    Work,
)

CARTS = Store("redis", "0", "cart-valkey.shop.svc", 6379)
FEATURES = Store("redis", "3", "features-valkey.shop.svc", 6379)
PRODUCT_CACHE = Store("redis", "1", "catalog-valkey.shop.svc", 6379)
PRODUCTS = Store("postgresql", "catalog", "catalog-pg.shop.svc", 5432)
SEARCH = Store("elasticsearch", "products", "search.shop.svc", 9200)
PAYMENTS = Store("postgresql", "payments", "payments-pg.shop.svc", 5432)
STOCK = Store("mysql", "inventory", "inventory-mysql.shop.svc", 3306)
PARCELS = Store("mongodb", "shipping", "shipping-mongo.shop.svc", 27017)

CATALOG_POOL = Pool("catalog-db", 20)
PAYMENT_POOL = Pool("HikariPool-1", 10)
INVENTORY_POOL = Pool("inventory-pool", 16)

ORDERS = Topic("orders", each=("email", "orders process"), batch=("fraud", "orders process"))

TOPICS = {ORDERS.name: ORDERS}


_ADS = Call("ad", "GetAds", timeout_ms=300, required=False)
_RECOMMENDATIONS = Call("recommendation", "ListRecommendations", timeout_ms=500, required=False)
_PRODUCT = Call("catalog", "GetProduct")
_STOCK = Call("inventory", "GetStock")
_CART = Call("cart", "GetCart")
_PRICE = Call("currency", "Convert")
_QUOTE = Call("shipping", "POST /quote")
_VISITOR = ("app.user.id", "session.id", "app.user.guest")
_WEB = (*_VISITOR, "client.address", "user_agent.original", "http.request.header.accept-language")


FRONTEND = Service(
    "frontend",
    language="nodejs",
    runtime="nodejs 22.14.0",
    version="4.21.0",
    protocol="http",
    port=8080,
    replicas=2,
    operations=(
        Operation("GET /", Latency(3.0), (Parallel((Call("catalog", "ListProducts"), _ADS, _CART)),), tags=_WEB),
        Operation(
            "GET /product/{id}",
            Latency(3.5),
            (_PRODUCT, Parallel((_RECOMMENDATIONS, _PRICE, _STOCK))),
            tags=(*_WEB, "app.product.id", "url.path"),
        ),
        Operation(
            "GET /search",
            Latency(4.0),
            (Call("catalog", "SearchProducts"), _ADS),
            tags=(*_WEB, "app.search.query"),
        ),
        Operation("GET /cart", Latency(3.0), (_CART, Parallel((_PRICE, _QUOTE))), tags=_WEB),
        Operation(
            "POST /cart",
            Latency(2.5),
            (_PRODUCT, _STOCK, Call("cart", "AddItem", attempts=2)),
            tags=(*_WEB, "app.product.id", "app.product.quantity"),
        ),
        Operation(
            "GET /checkout/methods",
            Latency(2.0),
            (Call("payment", "ListMethods", timeout_ms=1000),),
            tags=_WEB,
        ),
        Operation(
            "POST /checkout",
            Latency(4.0),
            (Call("checkout", "PlaceOrder", timeout_ms=6000),),
            tags=(*_WEB, "app.currency", "app.cart.items"),
        ),
    ),
)

CATALOG = Service(
    "catalog",
    language="go",
    runtime="go 1.24.1",
    version="7.2.0",
    protocol="grpc",
    port=3550,
    replicas=2,
    operations=(
        Operation(
            "ListProducts",
            Latency(1.2),
            (
                Query(
                    PRODUCTS, "SELECT", "products", "SELECT * FROM products ORDER BY rank LIMIT 24", Latency(6.0, 0.5)
                ),
            ),
        ),
        Operation(
            "GetProduct",
            Latency(0.6),
            (
                Query(PRODUCT_CACHE, "GET", "product", "GET product:?", Latency(0.5), hit_rate=0.85),
                Query(
                    PRODUCTS, "SELECT", "products", "SELECT * FROM products WHERE id = $1", Latency(2.5), chance=0.15
                ),
            ),
            error_rate=0.0008,
            failure=Failure("*errors.errorString", "product row is not valid utf-8", "INTERNAL"),
            tags=("app.product.id",),
        ),
        Operation(
            "SearchProducts",
            Latency(1.5),
            (Query(SEARCH, "search", "products", '{"query":{"match":{"name":"?"}}}', Latency(18.0, 0.6)),),
            error_rate=0.002,
            failure=Failure("*elastic.Error", "all shards failed", "UNAVAILABLE"),
            tags=("app.search.query", "app.search.hits"),
        ),
    ),
    pool=CATALOG_POOL,
)

CART = Service(
    "cart",
    language="dotnet",
    runtime=".NET 9.0.2",
    version="1.17.5",
    protocol="grpc",
    port=7070,
    replicas=2,
    operations=(
        Operation(
            "GetCart",
            Latency(0.7),
            (Query(CARTS, "HGETALL", "cart", "HGETALL cart:?", Latency(0.6), hit_rate=0.93),),
            tags=("app.user.id", "app.cart.items"),
        ),
        Operation(
            "AddItem",
            Latency(0.8),
            (
                Query(CARTS, "HGET", "cart", "HGET cart:? item", Latency(0.5), hit_rate=0.3),
                Query(CARTS, "HSET", "cart", "HSET cart:? item ?", Latency(0.7)),
            ),
            error_rate=0.001,
            failure=Failure("StackExchange.Redis.RedisTimeoutException", "timeout performing HSET", "UNAVAILABLE"),
            tags=("app.user.id", "app.product.id", "app.product.quantity"),
        ),
        Operation(
            "EmptyCart", Latency(0.5), (Query(CARTS, "DEL", "cart", "DEL cart:?", Latency(0.5)),), tags=("app.user.id",)
        ),
    ),
)

CURRENCY = Service(
    "currency",
    "cpp",
    "gcc 14.2",
    "1.3.1",
    "grpc",
    7001,
    2,
    (Operation("Convert", Latency(0.25), tags=("app.currency", "app.currency.rate")),),
)

RECOMMENDATION = Service(
    "recommendation",
    language="python",
    runtime="CPython 3.12.9",
    version="2.6.0",
    protocol="grpc",
    port=9001,
    replicas=2,
    operations=(
        Operation(
            "ListRecommendations",
            Latency(5.0, 0.45),
            (Work("rank", Latency(4.0, 0.5)), _PRODUCT),
            error_rate=0.004,
            failure=Failure("ValueError", "embedding has wrong dimension", "INTERNAL"),
            tags=("app.product.id", "app.recommendation.ids", "app.recommendation.score"),
        ),
    ),
)

AD = Service(
    "ad",
    language="java",
    runtime="OpenJDK 17.0.14",
    version="3.3.7",
    protocol="grpc",
    port=9556,
    replicas=2,
    operations=(
        Operation(
            "GetAds",
            Latency(2.2, 0.5),
            error_rate=0.003,
            failure=Failure("java.util.concurrent.TimeoutException", "ad bidder did not answer", "UNAVAILABLE"),
            tags=("app.ads.keywords", "app.ads.count"),
        ),
    ),
)


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
                Parallel((_CART, _PRODUCT, _PRICE, _QUOTE)),
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


SERVICES = (FRONTEND, CART, CHECKOUT, PAYMENT, SHIPPING, CURRENCY, CATALOG, RECOMMENDATION, AD, EMAIL, INVENTORY, FRAUD)
SHOP = {service.name: service for service in SERVICES}

FLOWS = (
    Flow("home", "frontend", "GET /", 20),
    Flow("product", "frontend", "GET /product/{id}", 24),
    Flow("search", "frontend", "GET /search", 14),
    Flow("cart", "frontend", "GET /cart", 8),
    Flow("add-to-cart", "frontend", "POST /cart", 11),
    Flow("methods", "frontend", "GET /checkout/methods", 8),
    Flow("checkout", "frontend", "POST /checkout", 15),
)
