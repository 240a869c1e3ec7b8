"""Files as sources: what a path and a file:// address mean, and relative to which folder."""

from __future__ import annotations

import pytest

from edgedla.cli.board_option import named_files
from edgedla.errors import UsageError
from edgedla.runtime.pipeline.config import load_config
from edgedla.runtime.sources.uri import parse_source
from edgedla.text.addresses import has_secret, shown


@pytest.mark.parametrize(
    ("text", "scheme", "place"),
    [
        ("file://film.avi", "file", "film.avi"),
        ("file:///tmp/a#1.avi?rate=5", "file", "/tmp/a#1.avi"),
        ("file:///tmp/a%231%3F.avi", "file", "/tmp/a#1?.avi"),
        ("file:///tmp/100%25 b.avi", "file", "/tmp/100% b.avi"),
        ("file://[cam]/1.avi", "file", "[cam]/1.avi"),
        ("images://day#2", "images", "day#2"),
    ],
)
def test_a_file_address_ends_at_the_question_mark(text, scheme, place):
    uri = parse_source(text)
    assert (uri.scheme, uri.place) == (scheme, place)


@pytest.mark.parametrize("text", ["file://", "images://?loop=1"])
def test_an_address_that_names_no_file_is_refused(text):
    with pytest.raises(UsageError, match="the address names no file"):
        parse_source(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("film.avi", "{folder}/film.avi"),
        ("file://film.avi", "{folder}/film.avi"),
        ("file://a%231.avi?rate=5", "{folder}/a#1.avi"),
        ("file://./day/film.avi", "{folder}/./day/film.avi"),
        ("images://day", "{folder}/day"),
        ("file:///data/film.avi", "/data/film.avi"),
        ("file://%2Fdata/film.avi", "/data/film.avi"),
        ("v4l2://0", "/dev/video0"),
    ],
)
def test_every_relative_path_of_a_pipeline_file_is_relative_to_its_folder(tmp_path, monkeypatch, text, place):
    folder = tmp_path / "50% #1"
    folder.mkdir()
    (folder / "p.yaml").write_text(f"version: 1\nartifact: a\nsource: '{text}'\n")
    monkeypatch.chdir(tmp_path)
    config = load_config("50% #1/p.yaml")
    assert parse_source(config.source.uri).place == place.format(folder=folder)


@pytest.mark.parametrize(("text", "says"), [("user:S3cret@cam/1", "has no scheme"), ("rtsp:/cam/S3cret", "has no //")])
def test_a_mistyped_address_in_a_pipeline_file_is_not_taken_as_a_path(tmp_path, text, says):
    (tmp_path / "p.yaml").write_text(f"version: 1\nartifact: a\nsource: '{text}'\n")
    with pytest.raises(UsageError, match=says) as refused:
        parse_source(load_config(str(tmp_path / "p.yaml")).source.uri)
    assert "S3cret" not in str(refused.value)


def test_a_file_whose_name_looks_like_an_address_is_found_beside_the_pipeline_file(tmp_path):
    (tmp_path / "a:b@c.avi").touch()
    (tmp_path / "p.yaml").write_text("version: 1\nartifact: a\nsource: 'a:b@c.avi'\n")
    assert load_config(str(tmp_path / "p.yaml")).source.uri == str(tmp_path / "a:b@c.avi")


def test_a_password_before_the_scheme_is_not_shown():
    text = "user:S3cret@rtsp://cam/1"
    with pytest.raises(UsageError, match="unknown source scheme") as refused:
        parse_source(text)
    assert "S3cret" not in str(refused.value)
    assert has_secret(text)
    assert "S3cret" not in shown(text)


@pytest.mark.parametrize(
    "text",
    ["a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)), "a: &a [*a]\n"],
    ids=["endless", "itself"],
)
def test_a_pipeline_file_of_nested_aliases_names_no_files(tmp_path, text):
    """Of one page the command made a document without end (a hang), or of one that holds itself exit code 70."""
    (tmp_path / "p.yaml").write_text(text)
    assert named_files(tmp_path / "p.yaml") == ()


def test_a_video_named_by_a_file_address_is_sent_to_the_board(tmp_path):
    (tmp_path / "a#1.avi").touch()
    (tmp_path / "p.yaml").write_text("version: 1\nartifact: a\nsource: 'file://a%231.avi?loop=1'\n")
    assert [str(p) for p in named_files(tmp_path / "p.yaml")] == ["a#1.avi"]
