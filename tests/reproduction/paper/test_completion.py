"""What TAB offers, asked for as a shell does."""

import pytest
from typer.testing import CliRunner

from fedrepro.cli import main as cli


@pytest.fixture
def offered(tiny):
    def ask(line: str) -> list[str]:
        """What bash is offered at the end of a line."""
        variables = {
            "_FEDREPRO_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        }
        result = CliRunner().invoke(cli.app, [], env=variables, prog_name="fedrepro")
        assert result.stderr == ""
        return result.stdout.split()

    return ask


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fedrepro sh", ["show"]),
        ("fedrepro show ", ["tiny"]),
        ("fedrepro why t", ["tiny"]),
        ("fedrepro why x", []),
        ("fedrepro reproduce t", ["tiny"]),
        ("fedrepro notebooks ", ["tiny"]),
        ("fedrepro reproduce --profile ", ["quick", "full"]),
        ("fedrepro report --profile f", ["full"]),
        ("fedrepro reproduce tiny -p ", ["seeds=", "rate=", "method=slow", "method=fast", "noisy=true", "noisy=false"]),
        ("fedrepro reproduce -p se", ["seeds="]),
        ("fedrepro why tiny -p method=", ["method=slow", "method=fast"]),
        ("fedrepro data get cifar", ["cifar10"]),
        ("fedrepro data audit mn", ["mnist"]),
    ],
)
def test_tab(offered, line, expected):
    assert offered(line) == expected


def test_a_paper_that_somebody_is_editing_does_not_disturb_the_shell(offered, tiny):
    (tiny.folder / "paper.toml").write_text("[paper")
    assert offered("fedrepro reproduce ") == []
    assert offered("fedrepro reproduce tiny -p ") == []


def test_only_the_root_installs_completion():
    assert "--install-completion" in CliRunner().invoke(cli.app, ["--help"]).stdout
    assert "completion" not in CliRunner().invoke(cli.app, ["data", "--help"]).stdout
