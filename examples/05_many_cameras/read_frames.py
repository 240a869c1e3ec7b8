"""Reads `outputs: {zmq: ADDRESS}`: prints results, and writes each camera's frames as pictures. read_frames.py ADDRESS [COUNT]"""

from __future__ import annotations

import json
import sys

import cv2
import numpy as np
import zmq

COLOURS = {"bgr": None, "rgb": cv2.COLOR_RGB2BGR}
socket = zmq.Context().socket(zmq.SUB)
socket.connect(sys.argv[1])
for kind in ("result/", "frame/", "event/"):
    socket.subscribe(kind)
for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else sys.maxsize):
    topic, text, *frame = socket.recv_multipart()
    document = json.loads(text)
    print(topic.decode(), len(document.get("results", ())), flush=True)
    if frame:
        image = np.frombuffer(frame[0], np.uint8).reshape(document["shape"])
        colour = COLOURS.get(document["pixels"], cv2.COLOR_YUV2BGR_NV12)
        cv2.imwrite(topic.decode().replace("/", "-") + ".jpg", image if colour is None else cv2.cvtColor(image, colour))
