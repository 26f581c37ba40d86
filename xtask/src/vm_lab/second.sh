# The guest's first process once it is on the host's files: makes what a booted system has, and runs the command.
mkdir /run/vm-lab/bin
/run/vm-lab/busybox --install -s /run/vm-lab/bin
PATH=/run/vm-lab/bin
fail() {
    echo "vm-lab: cannot $*"
    echo "failed $*" >&3
    poweroff -f
}
. /run/vm-lab/settings

mkdir -p /dev/pts /dev/shm /dev/mqueue
mount -t devpts -o nosuid,noexec,gid=5,mode=620,ptmxmode=666 devpts /dev/pts || fail "mount /dev/pts"
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs /dev/shm || fail "mount /dev/shm"
mount -t mqueue -o nosuid,nodev,noexec mqueue /dev/mqueue || fail "mount /dev/mqueue"
mount -t securityfs -o nosuid,nodev,noexec securityfs /sys/kernel/security || fail "mount securityfs"
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
chmod 666 /dev/fuse /dev/net/tun
mkdir -p /run/lock /run/user
chmod 1777 /run/lock
hostname vm-lab
ip link set lo up || fail "bring the loopback device up"
# An interface and a route that lead nowhere: what a program can see of a network, without one.
ip link add vm-lab0 type dummy && ip addr add 192.0.2.2/24 dev vm-lab0 && ip link set vm-lab0 up &&
    ip route add default via 192.0.2.1 || fail "make an interface"
# What systemd gives to services.
ulimit -S -n 1024
ulimit -H -n 524288

# A process may not share its cgroup with groups that have controllers: the command gets a leaf, and may make others
# beside it.
own=/sys/fs/cgroup/vm-lab
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 /sys/fs/cgroup || fail "mount cgroup v2"
mkdir "$own" "$own/command" || fail "make a cgroup"
for group in /sys/fs/cgroup "$own"; do
    for controller in cpu memory pids io; do
        echo "+$controller" > "$group/cgroup.subtree_control" || fail "enable the controller $controller in $group"
    done
done

become=
if [ "$uid" != 0 ]; then
    for group in "$own" "$own/command"; do
        chown "$uid:$gid" "$group" "$group/cgroup.procs" "$group/cgroup.subtree_control" "$group/cgroup.threads" ||
            fail "give $group to the user"
    done
    if ! grep -q "^[^:]*:[^:]*:$uid:" /etc/passwd; then
        echo "vm-lab:x:$uid:$gid::$home:/bin/sh" >> /etc/passwd
        echo "vm-lab:x:$gid:" >> /etc/group
        mkdir -p "$home" && chown "$uid:$gid" "$home" || fail "make a home"
    fi
    mkdir -p "/run/user/$uid" && chmod 700 "/run/user/$uid" && chown "$uid:$gid" "/run/user/$uid"
    become="/usr/bin/setpriv --reuid=$uid --regid=$gid --clear-groups --"
fi
if [ "$keeps" = yes ]; then
    mkdir /run/vm-lab-out
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 out /run/vm-lab-out || fail "mount /run/vm-lab-out"
fi

# Through pipes, as a program's output usually goes: a port can be opened only once, but programs open /dev/stdout.
for stream in 1 2; do
    mkfifo -m 666 "/run/vm-lab/stream$stream"
    for port in /dev/vport*p"$stream"; do :; done
    { cat "/run/vm-lab/stream$stream" > "$port"; : > "/run/vm-lab/end$stream"; } 3>&- &
done
echo ready >&3
(
    echo 0 > "$own/command/cgroup.procs"
    # shellcheck disable=SC2086 # words on purpose
    exec env -i /run/vm-lab/bin/setsid $become /bin/sh /run/vm-lab/launch.sh
) < /dev/null > /run/vm-lab/stream1 2> /run/vm-lab/stream2 3>&- &
wait $!
status=$?

# What the command left running may hold the pipes open for ever; what the command itself wrote is through by then.
tries=0
while [ "$tries" -lt 40 ] && ! { [ -e /run/vm-lab/end1 ] && [ -e /run/vm-lab/end2 ]; }; do
    tries=$((tries + 1))
    usleep 50000
done
sync
echo "exit $status" >&3
poweroff -f
