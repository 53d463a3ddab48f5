"""Frames of a video or picture file through PyAV, as RGB, by integer arithmetic that is the same on every machine.

H.264 and PNG decode to exact values. Conversion from YUV and scaling are done here and not by FFmpeg's scaler, whose
vector code depends on the processor: two nodes of one study must hold the same frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ablate.errors import BadInput, Problem
from trainables.package_files import INSTALL

Frame = np.ndarray[Any, np.dtype[np.uint8]]
YUV = ("yuv420p", "yuvj420p")


def decode(file: Path, expected: int | None = None, most: int | None = None) -> Iterator[Frame]:
    """Yield the frames of ``file``, each uint8 (H, W, 3) RGB.

    Args:
        file: a video or picture that FFmpeg can read.
        expected: how many frames it must hold; by default as many as its header declares, if it does.
        most: stop after so many frames.

    Raises:
        BadInput: if PyAV isn't installed, or the file is missing, unreadable, truncated or without frames.
    """
    try:
        import av
    except ImportError as error:
        raise BadInput(Problem("av", "PyAV isn't installed; it reads the frames", advice=INSTALL)) from error
    count = 0
    try:
        with av.open(str(file)) as container:
            if not container.streams.video:
                raise BadInput(Problem(str(file), "holds no video stream", "a video with at least one frame"))
            stream = container.streams.video[0]
            expected = expected or stream.frames or None
            for frame in container.decode(stream):
                count += 1
                yield _rgb(frame.to_ndarray(), frame.format.name, file)
                if count == most:
                    return
    except FileNotFoundError as error:
        raise BadInput(Problem(str(file), "no such file", "a video or picture file")) from error
    except (av.FFmpegError, OSError) as error:
        found = f"can't be decoded after {count} frames: {error.strerror}"
        raise BadInput(Problem(str(file), found, "a whole video file", advice="it may be truncated")) from error
    if count == 0:
        raise BadInput(Problem(str(file), "holds no frames", "a video with at least one frame"))
    if expected is not None and count != expected:
        found = f"holds {count} frames, expected {expected}"
        raise BadInput(Problem(str(file), found, advice="it is truncated or another version of the file"))


def _rgb(pixels: Frame, layout: str, file: Path) -> Frame:
    """Return (H, W, 3) RGB of a frame as PyAV lays it out: RGB already, or planar YUV with chroma at half size."""
    if layout == "rgb24":
        return pixels
    if layout in YUV:
        return yuv420_to_rgb(pixels, full_range=layout == "yuvj420p")
    allowed = ", ".join((*YUV, "rgb24"))
    advice = f"convert it: ffmpeg -i {file.name} -pix_fmt yuv420p OUTPUT"
    raise BadInput(Problem(str(file), f"has pixel format {layout}", allowed, advice=advice))


def yuv420_to_rgb(planes: Frame, full_range: bool = False) -> Frame:
    """Convert YUV, uint8 (3H/2, W), Y above U above V, to RGB, uint8 (H, W, 3).

    Coefficients are ITU-R BT.601's times 256, rounded, for limited range (16 to 235) or for full range as in JPEG; each
    chroma value serves a block of 2x2 pixels.
    """
    height, width = planes.shape[0] * 2 // 3, planes.shape[1]
    chroma = planes[height:].reshape(2, height // 2, width // 2).repeat(2, axis=1).repeat(2, axis=2).astype(np.int32)
    luma, u, v = planes[:height].astype(np.int32), chroma[0] - 128, chroma[1] - 128
    if full_range:
        y, red, blue, green_u, green_v = 256 * luma, 359, 454, 88, 183
    else:
        y, red, blue, green_u, green_v = 298 * (luma - 16), 409, 516, 100, 208
    rgb = np.stack([y + red * v, y - green_u * u - green_v * v, y + blue * u], axis=-1)
    return np.clip((rgb + 128) >> 8, 0, 255).astype(np.uint8)


def shrink(frame: Frame, width: int, height: int, file: Path) -> Frame:
    """Cut the largest centred k*width x k*height rectangle and average k x k blocks; return uint8 (height, width, 3).

    k is the largest whole number that fits, so every output pixel is the mean of the same number of input pixels,
    rounded half up, in integers.

    Raises:
        BadInput: if the frame is smaller than width x height.
    """
    frame_height, frame_width = frame.shape[:2]
    k = min(frame_width // width, frame_height // height)
    if k == 0:
        found = f"frames are {frame_width}x{frame_height}, smaller than the crop {width}x{height}"
        raise BadInput(Problem(str(file), found, advice="choose a smaller width and height"))
    top, left = (frame_height - k * height) // 2, (frame_width - k * width) // 2
    crop = frame[top : top + k * height, left : left + k * width]
    total = crop.reshape(height, k, width, k, 3).sum(axis=(1, 3), dtype=np.int64)
    return ((2 * total + k * k) // (2 * k * k)).astype(np.uint8)
