"""Which sites a reader wants to see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from syncscope.records import Site

OWNERS = ("user", "library", "torch")


@dataclass(frozen=True, slots=True)
class SiteFilter:
    """Conditions that all have to hold; "" and None are none."""

    owner: str = ""
    """One of OWNERS: whose code waited."""
    cause: str = ""
    file: str = ""
    """A pattern of the shell, for the whole path or for its last part."""
    top: int | None = None
    """How many sites at most: the first ones."""
    flagged_only: bool = False

    @property
    def words(self) -> str:
        """The conditions on sites as options of the command; "" if there are none."""
        pairs = (("--owner", self.owner), ("--cause", self.cause), ("--file", self.file))
        return " ".join(f"{option} {value}" for option, value in pairs if value)

    def matching(self, sites: Iterable[Site]) -> list[Site]:
        """The sites that have the owner, the cause and the file, in the given order."""
        return [
            site
            for site in sites
            if self.owner in ("", site.owner)
            and self.cause in ("", site.cause)
            and (not self.file or self._is_in(site.file))
        ]

    def chosen(self, sites: Iterable[Site]) -> list[Site]:
        """The sites for which all conditions hold."""
        matching = self.matching(sites)
        return [site for site in matching if site.flagged or not self.flagged_only][: self.top]

    def _is_in(self, file: str) -> bool:
        return any(fnmatchcase(name, self.file) for name in (file, PurePosixPath(file).name))
