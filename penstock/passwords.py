"""Connection strings as libpq reads them, and as they may be shown: libpq says which parameters are secret.

psycopg is imported only where it is needed: the command line starts without it.
"""

from __future__ import annotations

from functools import cache

_STARS = "***"
_URI = ("postgresql://", "postgres://")
_SECRET_TOO = ("scram_client_key", "scram_server_key")  # libpq hides them from forms, as it does what is no secret


def without_password(dsn: str) -> str:
    """A string without a secret as it is, another with stars for each. Of one that cannot be read, nothing is shown.

    >>> without_password("postgresql://ada@db/shop"), without_password("host=db password='a b' dbname=shop")
    ('postgresql://ada@db/shop', 'password=*** dbname=shop host=db')
    >>> without_password("postgresql://:s3cret@db/shop?pass%77ord=x"), without_password("password=s3 cret")
    ('password=*** dbname=shop host=db', '***')
    """
    from psycopg.conninfo import make_conninfo

    given = parameters(dsn)
    if given is None:
        return _STARS
    if not any(is_secret(name) for name in given):
        return dsn
    return make_conninfo("", **{name: _STARS if is_secret(name) else value for name, value in given.items()})


def parameters(dsn: object) -> dict[str, str] | None:
    """What a connection string says, by libpq's names; None if libpq cannot read it, or not as it was meant.

    In a URI an unescaped @ or / inside a password ends it: the rest would be taken for a host, a port or a database,
    and shown as such.

    >>> parameters("postgresql://ada:x%40y@db/shop"), parameters("postgresql://ada:x@y@db/shop")
    ({'user': 'ada', 'password': 'x@y', 'dbname': 'shop', 'host': 'db'}, None)
    """
    import psycopg
    from psycopg import pq

    if not isinstance(dsn, str) or "\0" in dsn:
        return None
    try:
        found = pq.Conninfo.parse(dsn.encode())
        given = {one.keyword.decode(): one.val.decode() for one in found if one.val is not None}
    except (psycopg.Error, UnicodeError):
        return None
    misread = dsn.startswith(_URI) and any("@" in given.get(name, "") for name in ("host", "port", "dbname"))
    return None if misread else given


def is_secret(name: str) -> bool:
    """Whether libpq's parameter of that name may not be shown."""
    return name in _marks() and (_marks()[name] == b"*" or name in _SECRET_TOO)


def is_parameter(name: str) -> bool:
    """Whether libpq knows it."""
    return name in _marks()


@cache
def _marks() -> dict[str, bytes]:
    from psycopg import pq

    return {one.keyword.decode(): one.dispchar for one in pq.Conninfo.get_defaults()}
