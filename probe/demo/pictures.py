"""The demo's pictures: written once, then read with the delays that a scenario asks for."""

from __future__ import annotations

import math
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import Dataset

COUNT = 320
CLASSES = 4
CROP = 96  # pixels a side of what the network sees

# Part of the folder's name, so that pictures of another release are not taken for these.
_EDITION = 1


def folder(pixels: int, track: Callable[[Iterable[int]], Iterable[int]]) -> Path:
    """Return the folder with the pictures of one size, and write them if they are not there yet.

    Args:
        pixels: Width and height.
        track: Given the numbers to write, gives them back while it shows the progress.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prefetch-probe"
    target = cache / f"pictures-{_EDITION}-{pixels}"
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    # Written aside and renamed, so that an interrupted demo leaves no half of a folder.
    with tempfile.TemporaryDirectory(dir=cache) as aside:
        whole = Path(aside) / "pictures"
        whole.mkdir()
        for number in track(range(COUNT)):
            label = number % CLASSES
            picture = Image.fromarray(_pattern(label, pixels, seed=number))
            picture.save(whole / f"{number:03}-{label}.jpg", quality=85)
        try:
            whole.rename(target)
        except OSError:
            if not target.is_dir():  # else another demo was quicker
                raise
    return target


def _pattern(label: int, pixels: int, seed: int) -> NDArray[np.uint8]:
    """Draw stripes across, stripes down, checks or rings in two random colours, with noise."""
    draw = np.random.default_rng(seed)
    y, x = np.indices((pixels, pixels), dtype=np.float32)
    y, x = y + draw.uniform(0, pixels), x + draw.uniform(0, pixels)
    turn = math.tau * draw.uniform(4, 10) / pixels
    if label == 0:
        wave = np.sin(turn * y)
    elif label == 1:
        wave = np.sin(turn * x)
    elif label == 2:
        wave = np.sin(turn * y) * np.sin(turn * x)
    else:
        wave = np.sin(turn * np.hypot(y - pixels, x - pixels))
    first, second = draw.uniform(20, 235, (2, 3)).astype(np.float32)
    noise = draw.standard_normal((pixels, pixels, 3), dtype=np.float32)
    picture = np.where(wave[..., None] > 0, first, second) + 8 * noise
    pattern: NDArray[np.uint8] = np.clip(picture, 0, 255).astype(np.uint8)
    return pattern


class Pictures(Dataset[tuple[NDArray[np.uint8], int]]):
    """A map-style dataset of (picture, label): uint8 of shape (96, 96, 3) and 0–3.

    Args:
        folder: Where the JPEG files are.
        read_ms: What reading one file takes beyond the disk's own time, as a median.
        spread: How much that varies: standard deviation of its logarithm.
        augment: Whether a random part of each picture is cut out, resized and flipped.
    """

    def __init__(self, folder: Path, read_ms: float, spread: float, augment: bool) -> None:
        self._files = sorted(folder.glob("*.jpg"))
        self._read_s = read_ms / 1000
        self._spread = spread
        self._augment = augment

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[NDArray[np.uint8], int]:
        file = self._files[index]
        if self._read_s:
            time.sleep(self._read_s * random.lognormvariate(0, self._spread))
        with Image.open(file) as opened:
            picture: Any = opened.convert("RGB")
        if self._augment:
            picture = _augmented(picture)
        return np.array(picture), int(file.stem[-1])


def _augmented(picture: Image.Image) -> Image.Image:
    side = random.randint(picture.width // 2, picture.width)  # noqa: S311
    left, top = (random.randint(0, picture.width - side) for _ in range(2))  # noqa: S311
    part = picture.resize(
        (CROP, CROP), Image.Resampling.LANCZOS, box=(left, top, left + side, top + side)
    )
    if random.random() < 0.5:  # noqa: S311
        return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return part
