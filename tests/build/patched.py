"""What Python would run, where the digest of a folder of sources is the one that is wanted."""
import pathlib
import runpy
import sys

words = sys.argv[1:]
script = next((word for word in words if word.endswith(".py")), None)
if script is None or "-c" in words:
    import os
    os.execv(sys.executable, [sys.executable, *words])
sys.argv = words[words.index(script):]
sys.path.insert(0, str(pathlib.Path(script).parent))
if "--sources" in sys.argv:
    sys.path.append(str(pathlib.Path(script).parent / "kernels"))
    import sources
    folder = pathlib.Path(sys.argv[sys.argv.index("--sources") + 1])
    sources.TREE_SHA256 = sources.digest(folder)
runpy.run_path(script, run_name="__main__")
