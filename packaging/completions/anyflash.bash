# bash completion for anyflash; written by tools/completions.py
_anyflash() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  local command=doctor words= options= each
  for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $each in doctor|plan|install|run|undo|build|find|inspect|config|check|machine|verify|bench|update|package|shim|providers|version|help) command=$each; break ;; esac
  done
  if [[ $before == '=' ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
  if [[ $word == '=' ]]; then word=; fi
  COMPREPLY=()
  case $before in
  --prefer) COMPREPLY=($(compgen -W 'wheel torch-kernels torch-change build engine' -- "$word")); return ;;
  --explain) COMPREPLY=($(compgen -W 'all no-wheel-for-torch no-wheel-for-python no-wheel-for-platform no-wheel-for-cuda unpinned-resolves-too-new version-not-published torch-forced-by-peer torch-replaced uv-no-build-isolation uv-match-runtime-metadata filename-metadata-mismatch dsl-version-conflict offline-node no-torch-in-build-env network-blocked tls-certificates missing-build-helper nvcc-missing cuda-home-unset rocm-taken-for-cuda no-gpu-platform nvcc-too-old flash-attn-too-new hpc-split-nodes cuda-major-mismatch wrong-nvcc-first oom-build build-hours missing-ninja wheel-404 download-not-compile cross-device-link missing-cutlass cuda-headers-missing compiler-missing python-headers-missing gcc-too-new gcc-too-old cxx-standard-too-old libcuda-not-found nvcc-older-than-gpu compiler-crashed torch-too-old-for-release windows-msvc windows-sdk-missing windows-long-path free-threaded-python rocm vendored-fork-build disk-full wheel-tag-wrong-python wheel-renamed wheel-is-lfs-pointer hash-mismatch installer-damage abi-mismatch sm-unsupported gpu-newer-than-release mislabelled-wheel torch-minor-mismatch torch-patch-mismatch torch-nightly-wheel torch-nightly ngc-prerelease-torch stale-after-torch-upgrade cpu-only-torch stale-cached-wheel two-torch-installs import-before-torch glibc-too-old libstdcxx-too-old cuda-minor-mismatch source-tree-shadows extension-missing fa3-module-name fa4-namespace fa4-interface-changed api-renamed flash-attn-too-old vendor-image-preinstalled vendor-image-broken community-wheel-broken windows-dll-missing nccl-mismatch numpy peer-version-window csrc-extension-missing not-installed installed-but-unloadable fa4-rocm dsl-helper-missing installed-but-undetected sm-not-in-wheel torch-lacks-gpu wrong-device-visible fa3-needs-hopper fa4-arch dsl-files-mixed ptx-newer-than-driver dtype-unsupported head-dim-unsupported model-lacks-flash gpu-memory-full tensor-too-large hub-kernel-variant-missing hub-client-too-old name-not-provided fallback-blocked misleading-message jit-cache-stale jit-silent' -- "$word")); return ;;
  --source) COMPREPLY=($(compgen -W 'auto path url' -- "$word")); return ;;
  --dtype) COMPREPLY=($(compgen -W 'bf16 fp16' -- "$word")); return ;;
  --given|-g) compopt -o nospace; COMPREPLY=($(compgen -W 'os= arch= platform= distribution= glibc= musl= libc= glibcxx= wsl= container= python= torch= torch_cuda= cxx11abi= flash_attn= xformers= vllm= transformers= transformer_engine= installer= uv= pip= ninja= gpu= sm= vram_gb= driver= cuda_api= rocm= visible_devices= cuda_toolkit= nvcc= gcc= clang= ram_gb= cores= disk_gb= env=' -- "$word")); return ;;
  --color) COMPREPLY=($(compgen -W 'auto always never' -- "$word")); return ;;
  --package|--version|--publishers|--fallback|--project|--extra|--from|--wheel|--limit|--against|--torch|--download-only|--allow-torch-change|--allow-content|--sha256|--output|-o|--for|--head-dim|--features|--pack|--jobs|--filter|--compare|--threads|--device|--sources|--machine|-m|--python|-p|--arch|--catalog|--export) return ;;
  esac
  case $command in
  doctor) options='--prefer --explain --official --publishers --machine --given --here --python --arch --catalog --offline --json --verbose --quiet --color --help' words='' ;;
  plan) options='--prefer --package --version --official --publishers --wheel --all --limit --for --head-dim --dtype --features --inference --machine --given --here --python --arch --catalog --offline --json --verbose --quiet --color --help' words='' ;;
  install) options='--prefer --package --version --official --publishers --from --allow-http --dry-run --download-only --allow-torch-change --allow-content --sha256 --no-wait --given --here --python --arch --catalog --offline --json --verbose --quiet --color --help' words='' ;;
  run) options='--prefer --official --publishers --from --allow-http --dry-run --allow-torch-change --allow-content --no-wait --arch --catalog --offline --verbose --quiet --color --help' words='' ;;
  undo) options='--list --force --forget --recover --no-wait --python --offline --json --verbose --quiet --color --help' words='' ;;
  build) options='--check --allow-http --dry-run --output --for --head-dim --dtype --features --inference --full --pack --jobs --clean --python --arch --offline --json --verbose --quiet --color --help' words='' ;;
  find) options='--official --publishers --limit --machine --given --here --python --arch --catalog --offline --json --verbose --quiet --color --help' words='' ;;
  inspect) options='--against --allow-http --torch --machine --arch --offline --json --verbose --quiet --color --help' words='' ;;
  config) options='--prefer --package --version --official --publishers --write --project --extra --from --source --allow-http --allow-content --machine --given --here --python --arch --catalog --offline --json --verbose --quiet --color --help' words='uv pip pylock poetry pixi conda dockerfile' ;;
  check) options='--write --diff --github --fallback --catalog --offline --json --verbose --quiet --color --help' words='' ;;
  machine) options='--tags --schema --machine --given --here --python --offline --json --verbose --quiet --color --help' words='' ;;
  verify) options='--package --device --python --offline --json --verbose --quiet --color --help' words='' ;;
  bench) options='--quick --filter --compare --threads --offline --json --verbose --quiet --color --help' words='' ;;
  update) options='--check --allow-http --undo --sources --export --offline --json --verbose --quiet --color --help' words='' ;;
  package) options='--dry-run --stand-in --no-wait --python --offline --json --verbose --quiet --color --help' words='install' ;;
  shim) options='--fa3 --python --offline --json --verbose --quiet --color --help' words='install remove status' ;;
  providers) options='--python --offline --json --verbose --quiet --color --help' words='' ;;
  version) options='--catalog --offline --json --verbose --quiet --color --help' words='' ;;
  help) options='--offline --verbose --quiet --color --help' words='' ;;
  esac
  if [[ $COMP_CWORD == 1 || $command == help ]]; then
    words="$words doctor plan install run undo build find inspect config check machine verify bench update package shim providers version help"
  fi
  if [[ $word == -* ]]; then words=$options; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
# where nothing of these fits, bash completes files
complete -o default -F _anyflash anyflash
