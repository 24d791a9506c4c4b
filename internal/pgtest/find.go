//go:build unix

package pgtest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
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

// unprivileged returns the user for processes if this process runs as root, else nil.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres to run it as: %w; run the tests as another user", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
