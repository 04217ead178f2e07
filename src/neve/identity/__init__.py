"""Bearer tokens of an identity provider (OpenID Connect): signing keys, verification, and claims as callers."""
