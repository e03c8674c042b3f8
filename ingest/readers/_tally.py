"""What went wrong at many places, as a bounded list of problems whose rows still add up."""

from __future__ import annotations

from dataclasses import dataclass, field

from ingest.run import ReadProblem

_LISTED = 5  # groups may be many, but each is one problem: its first places by name, the others as a count
_MAX_GROUPS = 200


@dataclass
class Tally:
    """Places counted by group: a group becomes one problem."""

    groups: dict[str, list[str]] = field(default_factory=dict)  # group -> its first places
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """All places of all groups."""
        return sum(self.counts.values())

    @property
    def first(self) -> str:
        """The first place of all, or a word for none."""
        return next((places[0] for places in self.groups.values()), "nothing")

    def add(self, place: str, *, group: str = "", rows: int = 1) -> None:
        """Count one place, where more than one row may have been."""
        if group not in self.groups and len(self.groups) >= _MAX_GROUPS:
            group = "…"
        places = self.groups.setdefault(group, [])
        if len(places) < _LISTED:
            places.append(place)
        self.counts[group] = self.counts.get(group, 0) + rows

    def forget(self, group: str) -> int:
        """Take a group back, for it is counted elsewhere; say how many places it had."""
        self.groups.pop(group, None)
        return self.counts.pop(group, 0)

    def problems(self, path: str, what: str) -> tuple[ReadProblem, ...]:
        """One problem a group; its rows are the places counted."""
        return tuple(ReadProblem(path=path, place=self._place(group), what=what, rows=self.counts[group]) for group in self.groups)

    def _place(self, group: str) -> str:
        named = self.groups[group]
        rest = self.counts[group] - len(named)
        return "; ".join(named) + (f" and {rest} more" if rest else "")
