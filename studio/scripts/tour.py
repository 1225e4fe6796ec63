"""Makes an animated image of the recording by `tests/pictures/tour.test.ts`: each scene gets its
caption, waits are shortened, and equal frames merged.

    python scripts/tour.py pictures/tour ../docs/pictures/studio-tour.webp
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from PIL import Image, ImageChops, ImageDraw, ImageFont

WIDTH = 1000
CAPTION_HEIGHT = 44
CAPTION_SIZE = 21
# Longest duration of one frame; longer waits are shortened to it.
FRAME_MS_MAX = 1000
FRAME_MS_MIN = 200
LAST_MS = 2000
BYTES_MAX = 2_000_000
# Scenes with this text in their caption are sped up by this factor.
FAST, FASTER = "four times as fast", 4


def main(folder: Path, target: Path) -> None:
    shots = json.loads((folder / "shots.json").read_text())
    frames: list[Image.Image] = []
    durations: list[int] = []
    seen: tuple[str, Image.Image] | None = None
    for number, (at, scene) in enumerate(shots):
        until = shots[number + 1][0] if number + 1 < len(shots) else at + LAST_MS
        if FAST in scene:
            until = at + (until - at) // FASTER
        shot = Image.open(folder / f"{number}.png").convert("RGB")
        is_same = seen is not None and seen[0] == scene and not differ(seen[1], shot)
        # Too soon after the previous frame to be noticed.
        is_early = bool(frames) and durations[-1] < FRAME_MS_MIN and shots[number - 1][1] == scene
        if is_same or is_early:
            durations[-1] += until - at
            continue
        frames.append(captioned(shot, scene))
        durations.append(until - at)
        seen = (scene, shot)
    durations = [min(last, FRAME_MS_MAX) for last in durations[:-1]] + [LAST_MS]
    target.parent.mkdir(parents=True, exist_ok=True)
    save(frames, durations, target)
    size = target.stat().st_size
    print(f"{len(frames)} frames, {sum(durations) / 1000:.1f} s, {size} bytes: {target}")
    if size > BYTES_MAX:
        sys.exit(f"more than {BYTES_MAX} bytes")


def differ(one: Image.Image, other: Image.Image) -> bool:
    return ImageChops.difference(one, other).getbbox() is not None


def captioned(shot: Image.Image, scene: str) -> Image.Image:
    height = round(shot.height * WIDTH / shot.width)
    frame = Image.new("RGB", (WIDTH, height + CAPTION_HEIGHT), "#1c2127")
    frame.paste(shot.resize((WIDTH, height), Image.Resampling.LANCZOS), (0, 0))
    font = ImageFont.load_default(size=CAPTION_SIZE)
    middle = (WIDTH // 2, height + CAPTION_HEIGHT // 2)
    ImageDraw.Draw(frame).text(middle, scene, fill="#ffffff", font=font, anchor="mm")
    return frame


def save(frames: list[Image.Image], durations: list[int], target: Path) -> None:
    first, *others = frames
    first.save(
        target,
        save_all=True,
        append_images=others,
        duration=durations,
        loop=0,
        quality=60,
        method=4,
        minimize_size=True,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
