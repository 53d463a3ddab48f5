"""Where a video model's frames come from: the settings ``source``, ``path`` and what each source takes besides."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.errors import BadInput, Problem
from trainables import clips, kitti, photographs, video_folder
from trainables.film import Film
from trainables.settings import at_least, not_negative, one_of

SOURCES = ("clips", "photographs", "folder", "kitti")
ON_DISK = ("folder", "kitti")


@dataclass(frozen=True)
class Source:
    """A source of film, checked.

    Attributes:
        owner: the trainable's name, for messages.
        source: clips (real footage), photographs (a crop moving over real texture), folder (videos of your own) or
            kitti (as prepared for PredNet).
        path: of the folder; folder and kitti only.
        speed: pixels a frame that the crop moves, also below 1; photographs only.
        cuts: none, or detect to split each video into shots; folder only.
        frames_per_file: how many frames are read of each video, 0 for all; folder only.
    """

    owner: str
    source: str
    path: str
    speed: float
    cuts: str
    frames_per_file: int

    def __post_init__(self) -> None:
        """Check.

        Raises:
            BadInput: if a setting is out of range, or a path is missing or not used.
        """
        one_of(f"{self.owner}.source", self.source, SOURCES)
        not_negative(f"{self.owner}.speed", self.speed)
        one_of(f"{self.owner}.cuts", self.cuts, video_folder.CUTS)
        at_least(f"{self.owner}.frames_per_file", self.frames_per_file, 0)
        check_path(self.owner, "source", self.source, self.path, ON_DISK)

    def film(self, width: int, height: int, window: int) -> Film:
        """Return the film, from the cache if it was decoded before, with room for windows both to train and to test.

        Args:
            width: of a frame in pixels.
            height: of a frame in pixels.
            window: frames to predict in a window, which is one frame longer.

        Raises:
            BadInput: if a package or file is missing, damaged, too small or too short.
        """
        match self.source:
            case "clips":
                film = clips.film(width, height)
            case "photographs":
                film = photographs.film(width, height, self.speed)
            case "kitti":
                film = kitti.film(self.path, width, height)
            case _:
                most, least = self.frames_per_file, window + 1
                film = video_folder.film(self.path, width, height, self.cuts, most, least)
        return film


def check_path(owner: str, key: str, value: str, path: str, on_disk: tuple[str, ...]) -> None:
    """Check that a path is given if, and only if, the data lie on the user's disk.

    Raises:
        BadInput: if it isn't so.
    """
    if value in on_disk and not path:
        advice = "~ and $NAME are expanded on the machine where a trial runs"
        raise BadInput(Problem(f"{owner}.path", f"is missing; {key}: {value} needs it", "a path", advice=advice))
    if path and value not in on_disk:
        found = f"is {path!r}, but {key}: {value} reads none"
        raise BadInput(Problem(f"{owner}.path", found, advice=f"remove it, or write {key}: {' or '.join(on_disk)}"))
