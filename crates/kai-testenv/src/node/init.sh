# The first process of a node's namespaces. Variables: NODE (folder), KUBELET (program and arguments).
set -e
mount --make-rshared /            # shared inside these namespaces only, for mounts that propagate
mount -t tmpfs tmpfs /run         # sockets of shims, network namespaces of pods, state of runc
mkdir -p /run/containerd /run/netns /run/lock /var/lib/kubelet /var/lib/cni
mount --bind "$NODE/kubelet" /var/lib/kubelet
mount --bind "$NODE/log" /var/log
mkdir -p /var/log/pods /var/log/containers
mount -t tmpfs tmpfs /var/lib/cni
# The kubelet insists on settings of the kernel: it sees the values that it wants, and the machine's stay as they are.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  path=${setting%%=*}
  file=/run/setting.$(echo "$path" | tr / .)
  echo "${setting#*=}" > "$file"
  mount --bind "$file" "/proc/sys/$path"
done
# Pods may mount /dev, and mountpoints of theirs are made in it: the machine's stays as it is.
mkdir /run/dev-upper /run/dev-work /run/pts
mount --bind /dev/pts /run/pts
mount -t overlay overlay -o "lowerdir=/dev,upperdir=/run/dev-upper,workdir=/run/dev-work" /dev
mount --bind /run/pts /dev/pts
# Folders that only this node has.
if [ -d "$NODE/own" ]; then
  mkdir /run/own-upper /run/own-work
  mount -t overlay overlay -o "lowerdir=/usr/lib,upperdir=/run/own-upper,workdir=/run/own-work" /usr/lib
  cp -r "$NODE/own/." /usr/lib/
fi
# Keeps a program running; while $NODE/NAME.down exists it is down.
keep() {
  name=$1
  shift
  while :; do
    if [ ! -e "$NODE/$name.down" ]; then
      "$@" >> "/var/log/$name.log" 2>&1 &
      program=$!
      while kill -0 $program 2>/dev/null && [ ! -e "$NODE/$name.down" ]; do sleep 0.1; done
      kill -9 $program 2>/dev/null || true
      wait $program || true
      touch "$NODE/$name.ended"
    fi
    sleep 0.1
  done
}
keep containerd containerd --config "$NODE/containerd.toml" &
until [ -e "$NODE/images" ]; do sleep 0.05; done
keep kubelet $KUBELET &
while :; do wait; sleep 1; done
