# Kills the adapter as a crash does, if it runs, and starts it again in the background.
cd "$(dirname "$0")" || exit 1
# After a restart of the machine another program may have this number.
pid=$(cat adapter.pid 2> /dev/null) && ps -p "$pid" -o args= | grep -q adapter.py && kill -9 "$pid"
python3 adapter.py > adapter.log 2>&1 &
echo $! > adapter.pid
