"""Connection strings as they may be shown."""

from __future__ import annotations

import re


def without_password(dsn: str) -> str:
    """
    >>> without_password("postgresql://ada:s3cret@db/shop"), without_password("host=db password='a b' user=ada")
    ('postgresql://ada:***@db/shop', 'host=db password=*** user=ada')
    """
    dsn = re.sub(r"(://[^:/@\s]+:)[^@\s]*@", r"\1***@", dsn)
    return re.sub(r"(?i)\b((?:ssl)?password\s*=\s*)('(?:\\.|[^'\\])*'|[^\s&]+)", r"\1***", dsn)
