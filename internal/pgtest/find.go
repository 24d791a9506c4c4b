//go:build unix

package pgtest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	binVariable   = "TASKENGINE_POSTGRES_BIN"
	debianFolders = "/usr/lib/postgresql/*/bin"
)

// findPostgres returns the folder of initdb and postgres.
func findPostgres() (string, error) {
	if bin := os.Getenv(binVariable); bin != "" {
		if !hasPostgres(bin) {
			return "", fmt.Errorf("$%s is %s, where initdb and postgres are not", binVariable, bin)
		}
		return bin, nil
	}
	installed, err := filepath.Glob(debianFolders)
	if err != nil {
		return "", err
	}
	if bin := newest(slices.DeleteFunc(installed, func(bin string) bool { return !hasPostgres(bin) })); bin != "" {
		return bin, nil
	}
	if initdb, err := exec.LookPath("initdb"); err == nil && hasPostgres(filepath.Dir(initdb)) {
		return filepath.Dir(initdb), nil
	}
	return "", fmt.Errorf("there is no initdb and postgres in %s or the PATH; install them with `apt-get install postgresql` "+
		"or `brew install postgresql`, or have $%s name their folder", debianFolders, binVariable)
}

// newest returns the folder of the highest version, or "" if there is none. A version is the name
// of the parent folder.
func newest(bins []string) string {
	version := func(bin string) float64 {
		v, err := strconv.ParseFloat(filepath.Base(filepath.Dir(bin)), 64) // versions up to 9.6 have a point
		if err != nil {
			return 0
		}
		return v
	}
	if len(bins) == 0 {
		return ""
	}
	return slices.MaxFunc(bins, func(a, b string) int { return cmp.Compare(version(a), version(b)) })
}

func hasPostgres(bin string) bool {
	return isProgram(filepath.Join(bin, "initdb")) && isProgram(filepath.Join(bin, "postgres"))
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// findBouncer returns the path of pgbouncer.
func findBouncer() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	if debian := "/usr/sbin/pgbouncer"; isProgram(debian) { // which is in the PATH of root alone
		return debian, nil
	}
	return "", errors.New("there is no pgbouncer; install it with `apt-get install pgbouncer` or `brew install pgbouncer`")
}

// Ports are chosen below those that systems use for outgoing connections (32768 and up on Linux,
// 49152 and up on macOS). So no outgoing connection takes the port of a server that is down for
// a moment, and a client that dials it then cannot connect to itself.
const firstPort, lastPort = 20000, 31999

// atFreePort calls listen with free ports until one was not taken meanwhile.
func atFreePort(listen func(port int) error) (int, error) {
	var err error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		var probe net.Listener
		if probe, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
			continue
		}
		if err = probe.Close(); err != nil {
			return 0, err
		}
		if err = listen(port); err == nil || !portTaken(err) {
			return port, err
		}
	}
	return 0, err
}

// portTaken reports whether a program ended because another program listens on its port.
func portTaken(err error) bool {
	var ended *endedError
	return errors.As(err, &ended) && strings.Contains(ended.said, "Address already in use")
}
