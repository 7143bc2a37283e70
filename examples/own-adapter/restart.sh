# Kills the adapter as a crash does, if it runs, and starts it again in the background.
cd "$(dirname "$0")" || exit 1
[ -f adapter.pid ] && kill -9 "$(cat adapter.pid)"
python3 adapter.py > adapter.log 2>&1 &
echo $! > adapter.pid
