"""Where a penstock home keeps what: paths in the catalog are relative to it, so a home can be moved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ConfigError


@dataclass(frozen=True)
class Home:
    """`catalog/` is the embedded server, `changelog/` the segments, `tables/` and `views/` the Delta tables."""

    root: Path

    @classmethod
    def at(cls, folder: Path | str) -> Home:
        root = Path(folder).expanduser().resolve()
        try:
            root.mkdir(parents=True, exist_ok=True)
        except (OSError, FileExistsError) as error:
            raise ConfigError(
                f"{root} cannot be used as a home: {error}", hint="Give a folder you can write to."
            ) from error
        return cls(root)

    @property
    def catalog(self) -> Path:
        return self.root / "catalog"

    def base(self, folder: str) -> Path:
        """The Delta table of a relation, by its folder (`tables/shop/public/orders`, `views/revenue`)."""
        return self.root / folder

    def changelog(self, folder: str) -> Path:
        return self.root / "changelog" / folder

    def path(self, relative: str) -> Path:
        return self.root / relative

    def relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def folder_name(name: str) -> str:
    """A name as that of one folder.

    >>> folder_name("orders"), folder_name("a/b"), folder_name("..")
    ('orders', 'a%2Fb', '%2E%2E')
    """
    part = name.replace("%", "%25").replace("/", "%2F")
    return part if part.strip(".") else part.replace(".", "%2E")
