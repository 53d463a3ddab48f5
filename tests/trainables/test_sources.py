import pytest

from ablate.errors import BadInput
from trainables.autoencoder import Autoencoder
from trainables.prednet import PredNet
from trainables.prednet_keras import PredNetKeras
from trainables.user_path import user_folder, user_path

MISSING = (
    "{0}.path: is missing; {1} needs it\n    allowed: a path\n"
    "    ~ and $NAME are expanded on the machine where a trial runs"
)
UNUSED = "{0}.path: is '/a', but {1} reads none\n    remove it, or write {2}"


@pytest.mark.parametrize(
    ("thing", "settings", "message"),
    [
        (PredNet, {"source": "folder"}, MISSING.format("PredNet", "source: folder")),
        (PredNetKeras, {"source": "kitti"}, MISSING.format("PredNetKeras", "source: kitti")),
        (Autoencoder, {"data": "cifar10"}, MISSING.format("Autoencoder", "data: cifar10")),
        (PredNet, {"path": "/a"}, UNUSED.format("PredNet", "source: clips", "source: folder or kitti")),
        (Autoencoder, {"path": "/a"}, UNUSED.format("Autoencoder", "data: packaged", "data: mnist-idx or cifar10")),
        (
            Autoencoder,
            {"data": "mnist"},
            "Autoencoder.data: is 'mnist'\n    did you mean 'mnist-idx'?\n    allowed: packaged, mnist-idx, cifar10",
        ),
        (PredNet, {"cuts": "yes"}, "PredNet.cuts: is 'yes'\n    allowed: none, detect"),
        (PredNet, {"frames_per_file": -1}, "PredNet.frames_per_file: is -1\n    allowed: a whole number, 0 or more"),
    ],
)
def test_a_setting_that_doesnt_fit_is_refused_when_the_trainable_is_made(thing, settings, message):
    with pytest.raises(BadInput) as caught:
        thing(**settings)
    assert str(caught.value) == message


def test_a_path_is_expanded(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FILMS", "films")
    (tmp_path / "films").mkdir()
    assert user_path("~/$FILMS") == tmp_path / "films"
    assert user_folder("$HOME/${FILMS}", "films") == tmp_path / "films"
    with pytest.raises(BadInput, match=r"\$UNSET/films: no such folder\n    allowed: films"):
        user_folder("$UNSET/films", "films")


@pytest.mark.parametrize(
    ("thing", "settings", "message"),
    [
        ("autoencoder:Autoencoder", "{data: mnist-idx, path: none}", "none: no such folder"),
        ("prednet:PredNet", "{source: folder, path: none}", "none: no such folder"),
        ("prednet:PredNet", "{source: foldr}", "did you mean 'folder'? allowed: clips, photographs, folder or kitti"),
    ],
)
def test_bad_data_stop_a_launch_before_any_trial(place, thing, settings, message):
    grid = place.grid("arms: {one: {}}\n", trainable=f"trainables.{thing}", settings=settings)
    done = place.ablate("launch", "--local", grid)
    assert done.code == 2
    assert message in done.words
    assert not list(place.folder.glob("runs/doubles/journal/*")) + list(place.folder.glob("runs/doubles/batches/*"))
