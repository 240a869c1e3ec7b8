"""A process that runs one GStreamer pipeline, whose description it reads from stdin. Imports nothing of edgedla.

Its first arguments are three descriptors: a pipe that tells the numbers of filled slots, one that gives the numbers of free slots, and
the memory of the slots (see ring.py). When nobody reads the first pipe any more, the process ends.

gst-launch-1.0 would take the pipeline as arguments, which every user of the machine can read: `ps` would show a camera's
password. This prints the caps of its frames on stdout, and on stderr errors and warnings as
gst-launch-1.0 does. Functions and constants: GStreamer 1.0's C API (gst/gst.h), stable since 1.0.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import select
import signal
import sys
import threading
from typing import List, Optional

NULL, PAUSED, PLAYING = 1, 3, 4
STATE_CHANGE_FAILURE, STATE_CHANGE_SUCCESS, STATE_CHANGE_NO_PREROLL = 0, 1, 3
#: gstformat.h.
FORMAT_TIME = 3
#: A pipeline that takes longer to its first frame counts as a camera's; in ns.
PREROLL = 5 * 10**9
#: Values of a queue's property `leaky`: drop no frame, or the oldest.
KEEPS_ALL, KEEPS_NEWEST = 0, 2
EOS, ERROR, WARNING, CLOCK_LOST = 1 << 0, 1 << 1, 1 << 2, 1 << 8
FOR_EVER = 2**64 - 1
#: Arguments: the pipeline is the user's own (gst://); its address may be a film's; play a film at its own rate.
OF_USER, MAY_END, PACED = "--of-user", "--may-end", "--paced"
#: Take any TLS certificate; or trust the authority in this file.
UNCHECKED, CA_FILE = "--tls-unchecked", "--tls-ca-file="
#: Printed on stdout before the first frame, if one of the first two arguments is given.
FILM, CAMERA = b"edgedla: film", b"edgedla: camera"
#: Printed on stdout before the caps of the frames that follow.
CAPS = b"edgedla: caps = "
#: Frames that the memory has room for. What was never used takes none.
SLOTS = 12
#: The element's path in the debug text of a message.
_PATH = re.compile(r"\(\): (/GstPipeline:\S+):$", re.MULTILINE)
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_ADDED = _HANDOFF = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_PROBE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
#: multipartdemux: the stream has only one part. Else decodebin waits for more streams, and buffers 2 MB.
_SINGLE = b"single-stream"
#: A property that only libav's video decoders have.
_CORRUPT = b"output-corrupt"
#: gstpad.h: a probe's type and answers, and the offset of the buffer in its information; gstbuffer.h: the offset of its flags.
_BUFFERS, _DROP, _REMOVE, _OF_BUFFER = 1 << 4, 0, 2, 16
_OF_FLAGS, _DELTA_UNIT = 16, 1 << 13


class GError(ctypes.Structure):
    _fields_ = [("domain", ctypes.c_uint32), ("code", ctypes.c_int), ("message", ctypes.c_char_p)]


def libraries() -> ctypes.CDLL:
    # Network sources ask GIO for a proxy, GIO reads the desktop's settings, and that writes ~/.cache/dconf.
    os.environ.setdefault("GSETTINGS_BACKEND", "memory")
    gst = ctypes.CDLL("libgstreamer-1.0.so.0")
    for name in (
        "gst_parse_launch gst_bin_get_by_name gst_element_get_static_pad gst_element_get_bus gst_pad_get_current_caps "
        "gst_caps_to_string gst_bus_timed_pop_filtered gst_message_get_structure"
    ).split():
        getattr(gst, name).restype = ctypes.c_void_p
    gst.gst_structure_get_name.restype = ctypes.c_char_p
    gst.gst_buffer_get_size.restype = gst.gst_buffer_extract.restype = ctypes.c_size_t
    return gst


def text_of(pointer: Optional[ctypes.c_void_p]) -> str:
    return ctypes.cast(pointer, ctypes.c_char_p).value.decode("utf-8", "replace") if pointer else ""  # type: ignore[union-attr]


def fail(text: str) -> None:
    os.write(2, f"ERROR: {text}\n".encode())
    # A normal exit would wait for threads of a hanging pipeline.
    os._exit(1)


def watch(gst: ctypes.CDLL, gobject: ctypes.CDLL, pipeline: int) -> list:
    """Prints the caps of the frames before the first that has them, and copies each frame into a free slot."""
    filled_fd, free_fd, memory_fd = map(int, sys.argv[1:4])
    slots: List[ctypes.Array] = []

    def announce(pad: int, _: object, __: object) -> None:
        caps = gst.gst_pad_get_current_caps(ctypes.c_void_p(pad))
        if caps:
            os.write(1, CAPS + text_of(gst.gst_caps_to_string(ctypes.c_void_p(caps))).encode() + b"\n")
            gst.gst_mini_object_unref(ctypes.c_void_p(caps))

    def hand_on(_: object, buffer: int, __: object, ___: object) -> None:
        # Meanwhile the queue before the sink drops old frames.
        slot = os.read(free_fd, 1)
        if not slot:
            os._exit(1)
        if not slots:
            size = gst.gst_buffer_get_size(ctypes.c_void_p(buffer))
            os.ftruncate(memory_fd, size * SLOTS)
            memory = mmap.mmap(memory_fd, 0)
            slots.extend((ctypes.c_char * size).from_buffer(memory, n * size) for n in range(SLOTS))
        to = slots[slot[0]]
        gst.gst_buffer_extract(ctypes.c_void_p(buffer), ctypes.c_size_t(0), to, ctypes.c_size_t(len(to)))
        os.write(filled_fd, slot)

    changed, handed = _CALLBACK(announce), _HANDOFF(hand_on)
    sink = ctypes.c_void_p(gst.gst_bin_get_by_name(ctypes.c_void_p(pipeline), b"edgedla"))
    pad = ctypes.c_void_p(gst.gst_element_get_static_pad(sink, b"sink"))
    gobject.g_signal_connect_data(pad, b"notify::caps", changed, None, None, 0)
    gobject.g_signal_connect_data(sink, b"handoff", handed, None, None, 0)
    # Python would free the callbacks while C still calls them.
    return [changed, handed, *set_up_elements(gst, gobject, pipeline)]


def set_up_elements(gst: ctypes.CDLL, gobject: ctypes.CDLL, pipeline: int) -> list:
    """Makes libav's decoders give nothing before the first key frame (they would begin with grey pictures), and an HTTP camera's
    first picture arrive at once."""

    def is_delta(pad: int, info: int, _: object) -> int:
        buffer = ctypes.c_uint64.from_address(info + _OF_BUFFER).value
        delta = ctypes.c_uint32.from_address(buffer + _OF_FLAGS).value & _DELTA_UNIT
        return _DROP if delta else _REMOVE

    probe = _PROBE(is_delta)

    def set_up(_: object, __: object, element: int, ___: object) -> None:
        # The first field of a GObject is its class.
        kind = ctypes.c_void_p(ctypes.cast(ctypes.c_void_p(element), ctypes.POINTER(ctypes.c_void_p))[0])
        set_tls(gobject, kind, element)
        if gobject.g_object_class_find_property(kind, _SINGLE):
            gobject.g_object_set(ctypes.c_void_p(element), _SINGLE, ctypes.c_int(1), None)
        if gobject.g_object_class_find_property(kind, _CORRUPT):
            # After a loss, if the decoder notices it.
            gobject.g_object_set(ctypes.c_void_p(element), _CORRUPT, ctypes.c_int(0), None)
            pad = ctypes.c_void_p(gst.gst_element_get_static_pad(ctypes.c_void_p(element), b"sink"))
            gst.gst_pad_add_probe(pad, _BUFFERS, probe, None, None)

    # Only decoders that decodebin chooses, and edgedla's own; others stay as the pipeline's text sets them.
    added = _ADDED(set_up)
    gobject.g_signal_connect_data(ctypes.c_void_p(pipeline), b"deep-element-added", added, None, None, 0)
    for name in (b"edgedla-decoder", b"edgedla-source"):
        ours = gst.gst_bin_get_by_name(ctypes.c_void_p(pipeline), name)
        if ours:
            set_up(None, None, ours, None)
    return [probe, added]


def set_tls(gobject: ctypes.CDLL, kind: ctypes.c_void_p, element: int) -> None:
    """Lets rtspsrc and souphttpsrc take the certificate that the arguments allow."""
    ca_file = next((a[len(CA_FILE) :] for a in sys.argv if a.startswith(CA_FILE)), "")
    to = ctypes.c_void_p(element)
    if UNCHECKED in sys.argv:
        for name in (b"tls-validation-flags", b"ssl-strict"):
            if gobject.g_object_class_find_property(kind, name):
                gobject.g_object_set(to, name, ctypes.c_int(0), None)
    elif ca_file and gobject.g_object_class_find_property(kind, b"ssl-ca-file"):
        gobject.g_object_set(to, b"ssl-ca-file", os.fsencode(ca_file), None)
    elif ca_file and gobject.g_object_class_find_property(kind, b"tls-database"):
        gio = ctypes.CDLL("libgio-2.0.so.0")
        gio.g_tls_file_database_new.restype = ctypes.c_void_p
        error = ctypes.POINTER(GError)()
        database = gio.g_tls_file_database_new(os.fsencode(ca_file), ctypes.byref(error))
        if not database:
            fail(f"{ca_file}: {text_of(error.contents.message)}")
        gobject.g_object_set(to, b"tls-database", ctypes.c_void_p(database), None)


def main() -> None:
    # As for any C program, SIGPIPE ends the process when nobody reads the frames any more.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    threading.Thread(target=leave_with_the_reader, args=(int(sys.argv[1]),), daemon=True).start()
    description = sys.stdin.buffer.read()
    try:
        gst, gobject = libraries(), ctypes.CDLL("libgobject-2.0.so.0")
        gobject.g_object_class_find_property.restype = ctypes.c_void_p
    except (OSError, AttributeError) as e:
        fail(f"GStreamer's library cannot be loaded: {e}")
    gst.gst_init(None, None)
    error = ctypes.POINTER(GError)()
    pipeline = gst.gst_parse_launch(description, ctypes.byref(error))
    if error or not pipeline:
        fail(text_of(error.contents.message) if error else "the pipeline cannot be made")
    callbacks = watch(gst, gobject, pipeline)
    bus = ctypes.c_void_p(gst.gst_element_get_bus(ctypes.c_void_p(pipeline)))
    started = play(gst, gobject, pipeline, sys.argv)
    # The bus holds the reason for the failure.
    wait = ctypes.c_uint64(0 if started == STATE_CHANGE_FAILURE else FOR_EVER)
    while True:
        message = gst.gst_bus_timed_pop_filtered(bus, wait, EOS | ERROR | WARNING | CLOCK_LOST)
        if not message:
            fail("pipeline doesn't want to play")
        structure = gst.gst_message_get_structure(ctypes.c_void_p(message))
        kind = gst.gst_structure_get_name(ctypes.c_void_p(structure)) if structure else b""
        if kind in (b"GstMessageError", b"GstMessageWarning"):
            say(gst, message, kind)
        elif kind == b"GstMessageClockLost":
            gst.gst_element_set_state(ctypes.c_void_p(pipeline), PAUSED)
            gst.gst_element_set_state(ctypes.c_void_p(pipeline), PLAYING)
        else:
            gst.gst_element_set_state(ctypes.c_void_p(pipeline), NULL)
            callbacks.clear()
            os._exit(0)


def leave_with_the_reader(fd: int) -> None:
    """Ends the process once nobody can read its frames any more: a pipeline without frames would hold the camera for ever."""
    watched = select.poll()
    watched.register(fd, 0)
    # poll() reports POLLERR for a pipe without a reader, whatever events it was asked for.
    watched.poll()
    os._exit(1)


def play(gst: ctypes.CDLL, gobject: ctypes.CDLL, pipeline: int, arguments: List[str]) -> int:
    """Starts the pipeline. For a film the queue drops no frame, and a film of the user's own pipeline plays at its own rate.

    A user's pipeline counts as a film if its first frame can wait; an address, if it states its length.
    """
    if not {OF_USER, MAY_END} & {*arguments}:
        return int(gst.gst_element_set_state(ctypes.c_void_p(pipeline), PLAYING))

    def put(element: bytes, name: bytes, value: int) -> None:
        target = ctypes.c_void_p(gst.gst_bin_get_by_name(ctypes.c_void_p(pipeline), element))
        gobject.g_object_set(target, name, ctypes.c_int(value), None)

    # Set before the first frame passes: more frames arrive by then than the queue holds.
    put(b"edgedla-queue", b"leaky", KEEPS_ALL)
    paused = gst.gst_element_set_state(ctypes.c_void_p(pipeline), PAUSED)
    if paused != STATE_CHANGE_FAILURE:
        paused = gst.gst_element_get_state(ctypes.c_void_p(pipeline), None, None, ctypes.c_uint64(PREROLL))
    ends = paused == STATE_CHANGE_SUCCESS and length(gst, pipeline) > 0 if MAY_END in arguments else None
    if paused == STATE_CHANGE_NO_PREROLL or ends is False:
        put(b"edgedla-queue", b"leaky", KEEPS_NEWEST)
        os.write(1, CAMERA + b"\n")
    else:
        put(b"edgedla", b"sync", int(ends is None or PACED in arguments))
        os.write(1, FILM + b"\n")
    return int(gst.gst_element_set_state(ctypes.c_void_p(pipeline), PLAYING))


def length(gst: ctypes.CDLL, pipeline: int) -> int:
    """The stream's length in ns; 0 if unknown, as for a server that states no Content-Length."""
    ns = ctypes.c_int64(0)
    answered = gst.gst_element_query_duration(ctypes.c_void_p(pipeline), FORMAT_TIME, ctypes.byref(ns))
    return max(0, ns.value) if answered else 0


def say(gst: ctypes.CDLL, message: int, kind: bytes) -> None:
    """Prints a warning, or an error, which ends the process."""
    error, debug = ctypes.POINTER(GError)(), ctypes.c_void_p()
    wrong = kind == b"GstMessageError"
    parse = gst.gst_message_parse_error if wrong else gst.gst_message_parse_warning
    parse(ctypes.c_void_p(message), ctypes.byref(error), ctypes.byref(debug))
    path = _PATH.search(text_of(debug))
    where = f"from element {path.group(1)}: " if path else ""
    text = where + (text_of(error.contents.message) if error else "unknown") + "\nAdditional debug info:\n" + text_of(debug)
    if wrong:
        fail(text)
    os.write(2, f"WARNING: {text}\n".encode())


if __name__ == "__main__":
    main()
