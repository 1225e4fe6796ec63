"""Makes one moving picture of what `tests/pictures/tour.test.ts` has recorded: what is said of each
scene stands below it, waits are cut short, and what looks the same is one frame.

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
# A picture that stays for longer than this does not say more.
STAYS_MS_MAX = 1000
FRAME_MS_MIN = 200
LAST_MS = 2000
BYTES_MAX = 2_000_000
# A scene that says so is.
FAST, FASTER = "four times as fast", 4


def main(folder: Path, target: Path) -> None:
    shots = json.loads((folder / "shots.json").read_text())
    frames: list[Image.Image] = []
    lasts: list[int] = []
    seen: tuple[str, Image.Image] | None = None
    for number, (at, scene) in enumerate(shots):
        until = shots[number + 1][0] if number + 1 < len(shots) else at + LAST_MS
        if FAST in scene:
            until = at + (until - at) // FASTER
        shot = Image.open(folder / f"{number}.png").convert("RGB")
        is_same = seen is not None and seen[0] == scene and not differ(seen[1], shot)
        # Too soon after the last one to be told from it.
        is_early = bool(frames) and lasts[-1] < FRAME_MS_MIN and shots[number - 1][1] == scene
        if is_same or is_early:
            lasts[-1] += until - at
            continue
        frames.append(captioned(shot, scene))
        lasts.append(until - at)
        seen = (scene, shot)
    lasts = [min(last, STAYS_MS_MAX) for last in lasts[:-1]] + [LAST_MS]
    target.parent.mkdir(parents=True, exist_ok=True)
    save(frames, lasts, target)
    size = target.stat().st_size
    print(f"{len(frames)} frames, {sum(lasts) / 1000:.1f} s, {size} bytes: {target}")
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


def save(frames: list[Image.Image], lasts: list[int], target: Path) -> None:
    first, *others = frames
    first.save(
        target,
        save_all=True,
        append_images=others,
        duration=lasts,
        loop=0,
        quality=60,
        method=4,
        minimize_size=True,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
