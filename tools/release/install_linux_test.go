package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// inCopy runs a script that installs, upgrades and removes a package in a copy of this system: all files that it writes are in a file system
// in memory above the files of this system, and are gone with the namespace of mounts.
const inCopy = `
mount -t tmpfs upper "$ROOT"
mkdir "$ROOT/upper" "$ROOT/work" "$ROOT/root"
mount -t overlay -o "lowerdir=/,upperdir=$ROOT/upper,workdir=$ROOT/work" overlay "$ROOT/root"
cd "$ROOT/root"
mkdir -p packages proc dev run
mount -t tmpfs none run
mount --bind "$PACKAGES" packages
mount --rbind /dev dev
mount --rbind /proc proc
exec chroot . /bin/sh -euxc "$SCRIPT"
`

// checks are functions of the scripts.
const checks = `
fail() { echo "FAILED: $*"; exit 1; }
same() { [ "$1" = "$2" ] || fail "$3: $1"; }
enabled=/etc/systemd/system/multi-user.target.wants/taskengine.service
`

const dpkgScript = checks + `
dpkg --no-triggers --force-unsafe-io --install packages/1.deb
same "$(taskengine)" v1.2.3-rc.1 "the program says"
same "$(getent passwd taskengine | cut -d: -f6)" /var/lib/taskengine "the home of the user is"
grep -q "path: /var/lib/taskengine/data" /etc/taskengine/taskengine.yaml || fail "the configuration"
same "$(dpkg --verify taskengine)" "" "changed"
systemctl enable taskengine.service
[ -L $enabled ] || fail "the unit cannot be enabled"

echo "node: {name: mine}" > /etc/taskengine/taskengine.yaml
mkdir -p /var/lib/taskengine/data
dpkg --no-triggers --force-unsafe-io --install packages/2.deb
same "$(taskengine)" v1.2.3 "after the upgrade the program says"
same "$(cat /etc/taskengine/taskengine.yaml)" "node: {name: mine}" "the upgrade has changed the configuration"
[ -L $enabled ] || fail "the upgrade has disabled the unit"

dpkg --no-triggers --force-unsafe-io --remove taskengine
[ ! -e /usr/bin/taskengine ] || fail "the program is left"
[ ! -L $enabled ] || fail "the unit is still enabled"
[ -d /var/lib/taskengine/data ] || fail "the tasks are removed"
[ -e /etc/taskengine/taskengine.yaml ] || fail "the configuration is removed"

dpkg --no-triggers --force-unsafe-io --purge taskengine
[ ! -e /etc/taskengine ] || fail "the configuration is left"
[ -d /var/lib/taskengine/data ] || fail "the tasks are purged"
getent passwd taskengine || fail "the user is removed"
echo DONE
`

// rpmScript does the same with rpm. Its database is empty here.
const rpmScript = checks + `
rpm="rpm --force-debian"
$rpm --install packages/1.rpm
same "$(taskengine)" v1.2.3-rc.1 "the program says"
same "$(getent passwd taskengine | cut -d: -f6)" /var/lib/taskengine "the home of the user is"
same "$($rpm --verify taskengine)" "" "changed"
systemctl enable taskengine.service
[ -L $enabled ] || fail "the unit cannot be enabled"

echo "node: {name: mine}" > /etc/taskengine/taskengine.yaml
mkdir -p /var/lib/taskengine/data
$rpm --upgrade packages/2.rpm
same "$(taskengine)" v1.2.3 "after the upgrade the program says"
same "$($rpm --query taskengine)" taskengine-1.2.3-1.$ARCHITECTURE "installed are"
same "$(cat /etc/taskengine/taskengine.yaml)" "node: {name: mine}" "the upgrade has changed the configuration"
[ -L $enabled ] || fail "the upgrade has disabled the unit"

$rpm --erase taskengine
[ ! -e /usr/bin/taskengine ] || fail "the program is left"
[ ! -L $enabled ] || fail "the unit is still enabled"
[ -d /var/lib/taskengine/data ] || fail "the tasks are removed"
same "$(cat /etc/taskengine/taskengine.yaml.rpmsave)" "node: {name: mine}" "the changed configuration is lost"
getent passwd taskengine || fail "the user is removed"
echo DONE
`

func TestDpkgInstallsUpgradesAndRemovesADeb(t *testing.T) {
	inACopyOfThisSystem(t, "deb", (*pack).writeDeb, dpkgScript)
}

func TestRpmInstallsUpgradesAndRemovesAnRPM(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("no rpm:", err)
	}
	inACopyOfThisSystem(t, "rpm", (*pack).writeRPM, rpmScript)
}

// inACopyOfThisSystem runs a script with the packages of two versions. The script ends with DONE.
func inACopyOfThisSystem(t *testing.T, kind string, writeTo func(*pack, io.Writer) error, script string) {
	t.Helper()
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil || os.Getuid() != 0 {
		t.Skipf("no right to make a namespace of mounts: %v: %s", err, out)
	}
	packages, root := t.TempDir(), t.TempDir()
	for name, version := range map[string]string{"1": "v1.2.3-rc.1", "2": "v1.2.3"} { // dpkg calls a downgrade an upgrade, with a warning
		p := testPack(t, version)
		p.architecture = runtime.GOARCH
		write(t, filepath.Join(packages, name+"."+kind), string(made(t, func(w io.Writer) error { return writeTo(p, w) })))
	}
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec", inCopy)
	cmd.Env = append(os.Environ(), "ROOT="+root, "PACKAGES="+packages, "SCRIPT="+script, "ARCHITECTURE="+rpmArchitectures[runtime.GOARCH],
		"LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "DONE\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
