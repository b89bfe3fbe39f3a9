# SPDX-License-Identifier: Apache-2.0
"""Pictures of the documentation as PNG files of few colours, compressed by zopfli: each clone of
the repository takes all of them.
"""

import io
from pathlib import Path

from PIL import Image
from zopfli import ZopfliPNG


def write(
    image: Image.Image,
    file: Path,
    colours: int,
    method: Image.Quantize = Image.Quantize.MEDIANCUT,
) -> None:
    few = image.convert("RGB").quantize(colours, method=method, dither=Image.Dither.NONE)
    png = io.BytesIO()
    few.save(png, "PNG", optimize=True)
    file.write_bytes(ZopfliPNG().optimize(png.getvalue()))
