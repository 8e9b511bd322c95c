"""A scenario that names a machine or a calibration holds what they say, and stands alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.zerosim.hardware.test_machine_file import MINE
from zerosim.cli import main
from zerosim.errors import InputError
from zerosim.scenario import Scenario, cluster_of, load_scenario, run
from zerosim.store import load_run, save_run

CONSTANTS = '[device."H100 SXM5 80GB"]\nefficiency = 0.5\nlaunch_s = 1e-5\nsource = "measured"\n'
CHANGED = {
    "device": {
        "H100 SXM5 80GB": {
            "efficiency": 0.5,
            "launch_s": 1e-5,
            "source": "measured",
            "memory_efficiency": 1.0,
        }
    }
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "machine.toml").write_text(MINE)
    (tmp_path / "constants.toml").write_text(CONSTANTS)
    return tmp_path


def test_a_word_puts_the_machine_in_and_what_was_changed_of_the_last_one_goes(home: Path) -> None:
    base = ["cluster=dgx-2", "intra_busbw=1e9", f"cluster.file={home}/machine.toml"]
    with pytest.raises(
        InputError, match=r"--set cluster=dgx-2: cluster.file names the machine, too"
    ):
        load_scenario("lesson-zero3", base)
    scenario = load_scenario("lesson-zero3", [base[2], "world_size=8"])
    assert scenario.cluster.name == "mine"
    assert cluster_of(scenario).n_nodes == 2


def test_a_toml_names_the_files_from_where_it_stands(home: Path) -> None:
    (home / "scenario.toml").write_text(
        '[cluster]\nfile = "machine.toml"\ncalibration = "constants.toml"\n'
        "world_size = 4\nintra_busbw = 1e9\n"
    )
    scenario = load_scenario(str(home / "scenario.toml"))
    cluster = cluster_of(scenario)
    assert (cluster.name, cluster.intra.busbw, cluster.device.efficiency) == ("mine", 1e9, 0.5)


def test_a_stored_run_stands_alone_and_remembers_the_constants_not_the_path(home: Path) -> None:
    words = [f"cluster.file={home}/machine.toml", f"cluster.calibration={home}/constants.toml"]
    scenario = load_scenario("lesson-zero3", words)
    save_run(run(scenario), home / "kept")
    for name in ("machine.toml", "constants.toml"):
        (home / name).unlink()
    again = load_scenario(str(home / "kept"))
    assert again == scenario == Scenario.from_dict(scenario.to_dict())
    assert scenario.cluster.calibration == CHANGED
    assert str(home) not in str(load_run(home / "kept").meta.scenario)


def test_another_machine_keeps_the_constants_and_drops_the_own_one(home: Path) -> None:
    words = [f"cluster.file={home}/machine.toml", f"calibration={home}/constants.toml"]
    scenario = load_scenario("lesson-zero3", words).with_set(["cluster=dgx-h100"])
    assert scenario.cluster.machine is None
    assert cluster_of(scenario).device.efficiency == 0.5
    assert cluster_of(scenario.with_set(["calibration=none"])).device.efficiency != 0.5


def test_a_calibration_that_changes_nothing_is_not_remembered(home: Path) -> None:
    (home / "constants.toml").write_text("")
    scenario = load_scenario("lesson-zero3", [f"cluster.calibration={home}/constants.toml"])
    assert scenario == load_scenario("lesson-zero3")


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        ('file = "none.toml"', "no file '.*none.toml' with a machine: check the path"),
        ("file = 3", "cluster.file is 3: give a file"),
        ('file = ""', "cluster.file is '': give a file"),
        ('name = "dgx-2"\nfile = "machine.toml"', "cluster.name and cluster.file both name"),
        ("calibration = 3", "cluster.calibration is 3: give a table"),
        ("[cluster.calibration.devices]", "no table of cluster.calibration 'devices'"),
        (
            "[cluster.machine]\nnames = 3",
            "no field of cluster.machine 'names': did you mean 'name'",
        ),
        ('machine = "machine.toml"', r"cluster.machine is .*: give a table \(cluster.file=FILE"),
    ],
)
def test_bad_files_are_one_sentence(home: Path, cluster: str, sentence: str) -> None:
    (home / "bad.toml").write_text(f"[cluster]\n{cluster}\n")
    with pytest.raises(InputError, match=sentence):
        load_scenario(str(home / "bad.toml"))


def test_a_name_beside_a_machine_of_ones_own_is_refused(home: Path) -> None:
    scenario = load_scenario("lesson-zero3", [f"cluster.file={home}/machine.toml"])
    with pytest.raises(InputError, match=r"cluster.name is 'dgx-2', but .* its own, 'mine'"):
        scenario.with_set(["cluster.name=dgx-2"])


def code(*words: str) -> int:
    with pytest.raises(SystemExit) as exits:
        main(words)
    return int(exits.value.code or 0)


def test_simulate_takes_a_calibration(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", "gpt2-1.5b"]
    assert code(*words) == 0
    before = capsys.readouterr().out
    assert code(*words, "--calibration", str(home / "constants.toml")) == 0
    assert capsys.readouterr().out != before
    assert code(*words, "--calibration", str(home / "none.toml")) == 2
    assert "no file" in capsys.readouterr().err


def test_a_configuration_takes_a_machine_and_says_where_it_is_from(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = home / "ds_config.json"
    config.write_text('{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}')
    file = f"cluster.file={home}/machine.toml"
    assert code("simulate", "gpt2-1.5b", "--from", str(config), "--set", file) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["cluster.name", "mine", "machine.toml"] in rows
    assert ["cluster.machine", "a", "record", "machine.toml"] in rows
    assert ["cluster.world_size", "4", "default", "of", "zerosim:", "a", "node", "of"] in [
        row[:8] for row in rows
    ]
